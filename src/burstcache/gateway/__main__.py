"""Run the gateway: `python -m burstcache.gateway`."""

import sys

from burstcache.gateway.command import main

if __name__ == "__main__":
    sys.exit(main(["gateway", *sys.argv[1:]]))
