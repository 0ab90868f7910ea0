#!/usr/bin/python3
"""Print a secret of the stack: `burstcache-secret KIND NAME`."""

import os
import sys

import boto3


def main() -> None:
    kind, name = sys.argv[1:]
    path = f"/burstcache/{os.environ['STACK']}/{kind}/{os.environ['CREDENTIALS_ISSUE']}/{name}"
    print(boto3.client("ssm").get_parameter(Name=path, WithDecryption=True)["Parameter"]["Value"])


if __name__ == "__main__":
    main()
