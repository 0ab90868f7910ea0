"""Prices today in Northern Virginia, on demand, looked up on 2026-11-20."""

from __future__ import annotations

from burstcache.core.prices.sheet import PriceRow, PriceSheet

_LAMBDA = "AWS Lambda pricing page, copy of 2026"
_INFRACOST = "infracost price files, 2024-07 to 2025-07"
_TOOLKIT = "aws/agent-toolkit-for-aws, 2026-08-20"
_DYNAMODB = "AWS Pricing API, 2026-07-31"
_FARGATE = "AWS price list, 2026-10-09"
_KARPENTER = "Karpenter's price file, 2026-07-20"
_NODES = "AWS price list, 2026-10-02"
_SERVERLESS = "ElastiCache pricing page, 2026-07-29"
_SPOT = "AWS price list, 2026-10-04"
_EXPRESS = "AWS S3 FAQ, copy of 2026, example of Northern Virginia; price list, 2026-10-04"
_SQS = "cloudburn.io 2026-03; factualminds.com, prices of June 2026"
_ZONES = "lastweekinaws.com, measured: 0.01 on either side"
_EFS = "factualminds.com, prices of June 2026: Standard, Elastic Throughput"

SHEET = PriceSheet(
    name="today-us-east-1",
    region="us-east-1",
    looked_up="2026-11-20",
    architecture="arm",
    rows=(
        PriceRow("lambda-duration:arm", "0.0000133334", "GB-s", f"{_LAMBDA}; infracost"),
        PriceRow("lambda-duration:x86", "0.0000166667", "GB-s", f"{_LAMBDA}; infracost"),
        PriceRow("lambda-request", "0.0000002", "request", _LAMBDA),
        PriceRow("lambda-tenant", "0.000167", "GB", f"{_LAMBDA}: x86, no figure for ARM"),
        PriceRow("s3-get", "0.0000004", "request", f"{_INFRACOST}; {_TOOLKIT}"),
        PriceRow("http-api-request", "0.000001", "512 KB", f"{_INFRACOST}; metering: AWS whitepaper on private APIs"),
        PriceRow("alb", "0.0225", "h", f"{_INFRACOST} (16.43 a month)"),
        PriceRow("alb-lcu", "0.008", "LCU-h", _INFRACOST),
        PriceRow("nlb", "0.0225", "h", _INFRACOST),
        PriceRow("nlb-lcu", "0.006", "LCU-h", _INFRACOST),
        PriceRow("ipv4", "0.005", "h", _TOOLKIT),
        PriceRow("fargate-vcpu:arm", "0.03238", "vCPU-h", _FARGATE),
        PriceRow("fargate-memory:arm", "0.00356", "GB-h", _FARGATE),
        PriceRow("fargate-vcpu:x86", "0.04048", "vCPU-h", _INFRACOST),
        PriceRow("fargate-memory:x86", "0.004445", "GB-h", _INFRACOST),
        PriceRow("fargate-spot-vcpu:arm", "0.01034", "vCPU-h", _SPOT),
        PriceRow("fargate-spot-memory:arm", "0.00114", "GB-h", _SPOT),
        PriceRow("private-zone", "0.50/730", "zone-h", "ns1.com on Route 53 (0.50 a month for each of the first 25)"),
        PriceRow("ebs-gp3", "0.08/730", "GB-h", f"{_TOOLKIT} (0.08 per GB-month)"),
        PriceRow("logs", "0.50", "GB", _TOOLKIT),
        PriceRow("metric", "0.30/730", "metric-hour", "api-evangelist/cloudwatch, price page of 2026-05"),
        PriceRow("alarm-metric", "0.10/730", "metric-hour", "AWS price list, 2026-08-16"),
        PriceRow("event", "0.000001", "64 KB", f"{_INFRACOST}; cloudburn.io 2026-03"),
        PriceRow("sqs-request", "0.0000004", "request", f"{_SQS}: standard queue, per 64 KB"),
        PriceRow("dynamodb-write", "0.000000625", "write unit", _DYNAMODB),
        PriceRow("dynamodb-read", "0.000000125", "read unit", _DYNAMODB),
        PriceRow("transition", "0.000025", "transition", _INFRACOST),
        PriceRow("ec2:t2.micro", "0.0116", "h", _KARPENTER),
        PriceRow("ec2:t3.micro", "0.0104", "h", _KARPENTER),
        PriceRow("ec2:t3a.micro", "0.0094", "h", "SkyPilot's catalog v8, 2026"),
        PriceRow("ec2:t4g.nano", "0.0042", "h", _KARPENTER),
        PriceRow("ec2:t4g.micro", "0.0084", "h", _KARPENTER),
        PriceRow("ec2:t4g.small", "0.0168", "h", _KARPENTER),
        PriceRow("ec2:t4g.medium", "0.0336", "h", _KARPENTER),
        PriceRow("ec2:t4g.large", "0.0672", "h", _KARPENTER),
        PriceRow("ec2:m7g.medium", "0.0408", "h", _KARPENTER),
        PriceRow("ec2:m7g.large", "0.0816", "h", _KARPENTER),
        PriceRow("ec2:r7g.medium", "0.0536", "h", _KARPENTER),
        PriceRow("ec2:r7g.large", "0.1071", "h", _KARPENTER),
        PriceRow("ec2:r7g.xlarge", "0.2142", "h", _KARPENTER),
        PriceRow("ec2:r7g.2xlarge", "0.4284", "h", _KARPENTER),
        PriceRow("ec2:r7g.4xlarge", "0.8568", "h", _KARPENTER),
        PriceRow("ec2:r8g.medium", "0.05891", "h", f"{_KARPENTER}: half of r8g.large, as in every family"),
        PriceRow("ec2:r8g.large", "0.11782", "h", _KARPENTER),
        PriceRow("elasticache-redis:t2.micro", "0.017", "h", _NODES),
        PriceRow("elasticache-redis:t3.micro", "0.017", "h", _NODES),
        PriceRow("elasticache-redis:t4g.micro", "0.016", "h", _NODES),
        PriceRow("elasticache-redis:t4g.small", "0.032", "h", _NODES),
        PriceRow("elasticache-redis:t4g.medium", "0.065", "h", _NODES),
        PriceRow("elasticache-redis:r7g.large", "0.219", "h", _NODES),
        PriceRow("elasticache-redis:r7g.xlarge", "0.437", "h", _NODES),
        PriceRow("elasticache-redis:r7g.2xlarge", "0.873", "h", _NODES),
        PriceRow("elasticache-redis:r7g.4xlarge", "1.745", "h", _NODES),
        PriceRow("elasticache-valkey:t2.micro", "0.0136", "h", _NODES),
        PriceRow("elasticache-valkey:t3.micro", "0.0136", "h", _NODES),
        PriceRow("elasticache-valkey:t4g.micro", "0.0128", "h", _NODES),
        PriceRow("elasticache-valkey:t4g.small", "0.0256", "h", _NODES),
        PriceRow("elasticache-valkey:t4g.medium", "0.052", "h", _NODES),
        PriceRow("elasticache-valkey:r7g.large", "0.1752", "h", _NODES),
        PriceRow("elasticache-valkey:r7g.xlarge", "0.3496", "h", _NODES),
        PriceRow("elasticache-valkey:r7g.2xlarge", "0.6984", "h", _NODES),
        PriceRow("elasticache-valkey:r7g.4xlarge", "1.396", "h", _NODES),
        PriceRow("elasticache-valkey:r8g.large", "0.1756", "h", _NODES),
        PriceRow("serverless-memory:valkey", "0.084", "GB-h", _SERVERLESS),
        PriceRow("serverless-ecpu:valkey", "0.0000000023", "ECPU", _SERVERLESS),
        PriceRow("serverless-memory:redis", "0.125", "GB-h", _SERVERLESS),
        PriceRow("serverless-ecpu:redis", "0.0000000034", "ECPU", _SERVERLESS),
        PriceRow("s3-express-get", "0.00000003", "request", _EXPRESS),
        PriceRow("s3-express-put", "0.00000113", "request", _EXPRESS),
        PriceRow("s3-express-upload", "0.0032", "GB", _EXPRESS),
        PriceRow("s3-express-retrieval", "0.0006", "GB", _EXPRESS),
        PriceRow("s3-express-storage", "0.11/730", "GB-h", f"{_EXPRESS} (0.11 per GB-month)"),
        PriceRow("efs-storage", "0.30/730", "GB-h", f"{_EFS} (0.30 per GB-month)"),
        PriceRow("efs-read", "0.03", "GB", _EFS),
        PriceRow("efs-write", "0.06", "GB", _EFS),
        PriceRow("internet-transfer", "0.09", "GB", "wring.co, AWS data transfer pricing 2026: first 10 TB"),
        PriceRow("zone-transfer", "0.02", "GB", _ZONES),
        PriceRow("cloudfront-transfer", "0.085", "GB", _INFRACOST),
        PriceRow("cloudfront-request", "0.000001", "request", f"{_INFRACOST} (0.0100 per 10,000 HTTPS requests)"),
    ),
)
