output "objects" {
  description = "The front door. An object's key follows."
  value       = "${aws_cloudformation_stack.burstcache.outputs["ApiUrl"]}/objects/"
}

output "reader_settings" {
  description = "A program's environment variable BURSTCACHE_READER."
  value       = aws_cloudformation_stack.burstcache.outputs["ReaderSettings"]
}

output "reader_policy_arn" {
  description = "Attach to the role of that program."
  value       = aws_cloudformation_stack.burstcache.outputs["ReaderPolicyArn"]
}

output "writer_policy_arn" {
  description = "Attach this too if that program writes."
  value       = aws_cloudformation_stack.burstcache.outputs["WriterPolicyArn"]
}

output "reader_security_group_id" {
  description = "Add to that program, in the stack's VPC. Null for a stack without a network."
  value       = lookup(aws_cloudformation_stack.burstcache.outputs, "ReaderSecurityGroupId", null)
}
