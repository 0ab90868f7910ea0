"""Prices of Europe (Frankfurt), on demand, looked up on 2026-11-20.

Fewer of them were found than of Northern Virginia's. A row `from memory` was read nowhere: check it before you rely on
it. What is not even remembered with confidence is missing, and asking for it is an error.
"""

from __future__ import annotations

from burstcache.core.prices.sheet import UNCHECKED, PriceRow, PriceSheet

_MEMORY = UNCHECKED
_LAMBDA = "AWS Lambda pricing page, copy of 2026, for us-east-1; that Frankfurt is the same: from memory"
_DERIVED = "SkyPilot's catalog v8, 2026: a part of t4g.2xlarge's 0.3072"

SHEET = PriceSheet(
    name="today-eu-central-1",
    region="eu-central-1",
    looked_up="2026-11-20",
    architecture="arm",
    rows=(
        PriceRow("lambda-duration:arm", "0.0000133334", "GB-s", _LAMBDA),
        PriceRow("lambda-duration:x86", "0.0000166667", "GB-s", _LAMBDA),
        PriceRow("lambda-request", "0.0000002", "request", _LAMBDA),
        PriceRow("s3-get", "0.00000043", "request", "Buner 2022, section 2.2.1; unchanged since: from memory"),
        PriceRow("http-api-request", "0.0000012", "512 KB", _MEMORY),
        PriceRow("alb", "0.027", "h", _MEMORY),
        PriceRow("alb-lcu", "0.008", "LCU-h", _MEMORY),
        PriceRow("nlb", "0.027", "h", _MEMORY),
        PriceRow("nlb-lcu", "0.006", "LCU-h", _MEMORY),
        PriceRow("ipv4", "0.005", "h", "aws/agent-toolkit-for-aws, 2026-08-20; the same in all regions: from memory"),
        PriceRow("fargate-vcpu:arm", "0.03725", "vCPU-h", _MEMORY),
        PriceRow("fargate-memory:arm", "0.00409", "GB-h", _MEMORY),
        PriceRow("fargate-vcpu:x86", "0.04656", "vCPU-h", _MEMORY),
        PriceRow("fargate-memory:x86", "0.00511", "GB-h", _MEMORY),
        PriceRow("ebs-gp3", "0.0952/730", "GB-h", f"{_MEMORY} (0.0952 per GB-month)"),
        PriceRow("secret", "0.40/730", "secret-h", f"{_MEMORY} (0.40 a month)"),
        PriceRow("alarm", "0.10/730", "metric-h", f"{_MEMORY} (0.10 a month)"),
        PriceRow("logs", "0.63", "GB", _MEMORY),
        PriceRow("event", "0.000001", "64 KB", _MEMORY),
        PriceRow("dynamodb-write", "0.0000007625", "write unit", _MEMORY),
        PriceRow("dynamodb-read", "0.0000001525", "read unit", _MEMORY),
        PriceRow("transition", "0.000025", "transition", _MEMORY),
        PriceRow("ec2:t2.micro", "0.0134", "h", "matthiaskraaz.blogspot 2021; Buner 2022, section 2.2.2"),
        PriceRow("ec2:t3.micro", "0.0120", "h", "matthiaskraaz.blogspot 2021"),
        PriceRow("ec2:t3a.micro", "0.0108", "h", "SkyPilot's catalog v8, 2026"),
        PriceRow("ec2:t4g.nano", "0.0048", "h", _DERIVED),
        PriceRow("ec2:t4g.micro", "0.0096", "h", _DERIVED),
        PriceRow("ec2:t4g.small", "0.0192", "h", _DERIVED),
        PriceRow("ec2:r7g.large", "0.129", "h", _MEMORY),
        PriceRow("elasticache-redis:t2.micro", "0.019", "h", "Buner 2022, section 2.2.3; a published script"),
        PriceRow("elasticache-redis:t3.micro", "0.020", "h", "a published script without a date"),
        PriceRow("cloudfront-transfer", "0.085", "GB", "infracost price files: first 10 TB in Europe"),
        PriceRow("cloudfront-request", "0.0000012", "request", f"{_MEMORY} (0.0120 per 10,000 HTTPS requests)"),
    ),
)
