"""The prices of the thesis: Europe (Frankfurt), 2022. Each price is a whole number of cost units."""

from __future__ import annotations

from burstcache.core.prices.sheet import PriceRow, PriceSheet

SHEET = PriceSheet(
    name="thesis-2022",
    region="eu-central-1",
    looked_up="2022",
    architecture="x86",
    rows=(
        # 1024 MB cost 1.67e-8 USD per ms, and according to the thesis, the price is linear in memory.
        PriceRow("lambda-duration:x86", "0.0000167", "GB-s", "Buner 2022, section 2.2.4"),
        PriceRow("lambda-request", "0.0000002", "request", "Buner 2022, table A.1 (27 invocations cost 0.0000054)"),
        PriceRow("ec2:t2.micro", "0.0134", "h", "Buner 2022, section 2.2.2"),
        PriceRow("elasticache-redis:t2.micro", "0.019", "h", "Buner 2022, section 2.2.3"),
        PriceRow("s3-get", "0.00000043", "request", "Buner 2022, section 2.2.1"),
    ),
)
