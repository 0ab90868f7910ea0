# A Burstcache stack. CloudFormation transforms its template and runs its checks and its self-test, as for `make deploy`.
terraform {
  required_version = ">= 1.5"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

provider "aws" {
  region = var.region
}

data "aws_s3_bucket" "packages" {
  bucket = var.bucket
}

# The template is too large for a request. Its key has its hash, so that another template updates the stack.
resource "aws_s3_object" "template" {
  bucket = data.aws_s3_bucket.packages.id
  key    = "${var.name}/${filemd5(var.template)}.yaml"
  source = var.template
}

resource "aws_cloudformation_stack" "burstcache" {
  name         = var.name
  template_url = "https://${data.aws_s3_bucket.packages.bucket_regional_domain_name}/${aws_s3_object.template.key}"
  parameters   = var.parameters
  tags         = var.tags
  # Roles, none of them named; and SAM's transform, which Terraform runs without a change set.
  capabilities = ["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"]

  timeouts {
    create = "60m"
    update = "60m"
    delete = "60m"
  }
}
