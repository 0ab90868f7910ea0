"""Prices today in Europe (Frankfurt), on demand, looked up on 2026-11-27.

`AWS price list` with a date refers to a published cost estimate that quotes AWS's list for Frankfurt on that date.
Unchecked figures are marked. Unknown prices are missing, and a bill that needs such a price fails.
"""

from __future__ import annotations

from burstcache.core.prices.sheet import UNCHECKED, PriceRow, PriceSheet

_LIST = "AWS price list"
_AUGUST = f"{_LIST}, 2026-08-16"
_VALKEY = f"{_LIST}, 2026-10-08"
_CLOUDFRONT = f"{_LIST}, 2026-10-07"
_SPOT = f"the share of the usual price as in Northern Virginia; Frankfurt: {UNCHECKED}"
_CATALOG = "SkyPilot's catalog v8, 2026"

SHEET = PriceSheet(
    name="today-eu-central-1",
    region="eu-central-1",
    looked_up="2026-11-27",
    architecture="arm",
    not_sold=("s3-express",),  # not among the Regions on AWS's page of S3 Express One Zone locations
    rows=(
        PriceRow("lambda-duration:arm", "0.0000133334", "GB-s", f"{_LIST}, 2026-09-21"),
        PriceRow("lambda-duration:x86", "0.0000166667", "GB-s", f"{_LIST}, 2026-10-09"),
        PriceRow("lambda-request", "0.0000002", "request", f"{_LIST}, 2026-09-21"),
        PriceRow("lambda-tenant", "0.000167", "GB", f"as in Northern Virginia, x86; Frankfurt: {UNCHECKED}"),
        PriceRow("s3-get", "0.00000043", "request", f"{_AUGUST}; Buner 2022, section 2.2.1"),
        PriceRow("http-api-request", "0.0000012", "512 KB", f"{_LIST}, 2026-09-21"),
        PriceRow("alb", "0.027", "h", f"{_LIST}, 2026-09-24 (19.71 a month)"),
        PriceRow("alb-lcu", "0.008", "LCU-h", f"{_LIST}, 2026-09-24"),
        PriceRow("nlb", "0.027", "h", f"{_LIST}, 2026-09-16 (19.71 a month)"),
        PriceRow("alarm-metric", "0.10/730", "metric-hour", f"as in Northern Virginia; Frankfurt: {UNCHECKED}"),
        PriceRow("nlb-lcu", "0.006", "LCU-h", f"as in Northern Virginia and Seoul; Frankfurt: {UNCHECKED}"),
        PriceRow("ipv4", "0.005", "h", f"{_LIST}, 2026-08-26"),
        PriceRow("fargate-vcpu:arm", "0.03725", "vCPU-h", _AUGUST),
        PriceRow("fargate-memory:arm", "0.00409", "GB-h", _AUGUST),
        PriceRow("fargate-spot-vcpu:arm", "0.0119", "vCPU-h", _SPOT),
        PriceRow("fargate-spot-memory:arm", "0.00131", "GB-h", _SPOT),
        PriceRow("private-zone", "0.50/730", "zone-h", "ns1.com on Route 53 (0.50 a month for each of the first 25)"),
        PriceRow("fargate-vcpu:x86", "0.04656", "vCPU-h", _AUGUST),
        PriceRow("fargate-memory:x86", "0.00511", "GB-h", _AUGUST),
        PriceRow("ebs-gp3", "0.0952/730", "GB-h", f"{_LIST}, 2026-08-26 (0.0952 per GB-month)"),
        PriceRow("logs", "0.63", "GB", _AUGUST),
        PriceRow("metric", "0.30/730", "metric-hour", "api-evangelist/cloudwatch, price page of 2026-05, all regions"),
        PriceRow("event", "0.000001", "64 KB", _AUGUST),
        PriceRow("sqs-request", "0.0000004", "request", f"as in Northern Virginia; Frankfurt: {UNCHECKED}"),
        PriceRow("dynamodb-write", "0.0000007625", "write unit", _AUGUST),
        PriceRow("dynamodb-read", "0.0000001525", "read unit", _AUGUST),
        PriceRow("transition", "0.000025", "transition", _AUGUST),
        PriceRow("ec2:t2.micro", "0.0134", "h", f"{_CATALOG}; Buner 2022, section 2.2.2"),
        PriceRow("ec2:t3.micro", "0.0120", "h", _CATALOG),
        PriceRow("ec2:t3a.micro", "0.0108", "h", _CATALOG),
        PriceRow("ec2:t4g.nano", "0.0048", "h", _CATALOG),
        PriceRow("ec2:t4g.micro", "0.0096", "h", _CATALOG),
        PriceRow("ec2:t4g.small", "0.0192", "h", _CATALOG),
        PriceRow("ec2:t4g.medium", "0.0384", "h", f"{_CATALOG}: an eighth of t4g.2xlarge"),
        PriceRow("ec2:t4g.large", "0.0768", "h", f"{_CATALOG}: a quarter of t4g.2xlarge"),
        PriceRow("ec2:m7g.medium", "0.0489", "h", _CATALOG),
        PriceRow("ec2:m7g.large", "0.0978", "h", _CATALOG),
        PriceRow("ec2:r7g.medium", "0.0646", "h", _CATALOG),
        PriceRow("ec2:r7g.large", "0.1292", "h", _CATALOG),
        PriceRow("ec2:r7g.xlarge", "0.2584", "h", _CATALOG),
        PriceRow("ec2:r7g.2xlarge", "0.5168", "h", f"{_CATALOG}: an eighth of r7g.metal"),
        PriceRow("ec2:r7g.4xlarge", "1.0336", "h", f"{_CATALOG}: a quarter of r7g.metal"),
        PriceRow("ec2:r8g.medium", "0.07106", "h", f"{_CATALOG}: an eighth of r8g.2xlarge"),
        PriceRow("ec2:r8g.large", "0.14212", "h", _CATALOG),
        PriceRow("elasticache-redis:t2.micro", "0.019", "h", "Buner 2022, section 2.2.3"),
        PriceRow("elasticache-redis:t3.micro", "0.019", "h", "a published script, no date: half of t3.small's 0.038"),
        PriceRow("elasticache-redis:t4g.micro", "0.018", "h", f"{_VALKEY}: Valkey's 0.0144 is 20 % less"),
        PriceRow("elasticache-valkey:t2.micro", "0.0152", "h", "20 % less than Redis OSS's 0.019"),
        PriceRow("elasticache-valkey:t3.micro", "0.0152", "h", "20 % less than Redis OSS's 0.019"),
        PriceRow("elasticache-valkey:t4g.micro", "0.0144", "h", _VALKEY),
        PriceRow("serverless-memory:valkey", "0.101", "GB-h", _VALKEY),
        PriceRow("serverless-ecpu:valkey", "0.0000000027", "ECPU", _VALKEY),
        PriceRow("internet-transfer", "0.09", "GB", f"as in Northern Virginia; Frankfurt: {UNCHECKED}"),
        PriceRow("zone-transfer", "0.02", "GB", "courseiva.com on data transfer: 0.01 on either side"),
        PriceRow("cloudfront-transfer", "0.085", "GB", f"{_CLOUDFRONT}: first 10 TB in Europe"),
        PriceRow("cloudfront-request", "0.0000012", "request", f"{_CLOUDFRONT} (0.0120 per 10,000 HTTPS requests)"),
    ),
)
