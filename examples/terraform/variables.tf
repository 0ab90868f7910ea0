variable "region" {
  description = "Region of the stack, for which `make package` was run."
  type        = string
}

variable "bucket" {
  description = "Bucket of the packages, in that region, which was given to `make package`. It also takes the template."
  type        = string
}

variable "template" {
  description = "Template that `make package` wrote."
  type        = string
  default     = "../../build/packaged.yaml"
}

variable "name" {
  description = "The stack's name."
  type        = string
  default     = "burstcache"
}

variable "parameters" {
  description = "Parameters of the stack (docs/use/parameters.md). Those left out keep their defaults."
  type        = map(string)
  default     = { ApiAuth = "iam" }
}

variable "tags" {
  description = "Tags of the stack, which CloudFormation copies to its resources."
  type        = map(string)
  default     = {}
}
