"""The main module of the gateway: `python -m burstcache.gateway`."""

import sys

from burstcache.gateway.entry import main

if __name__ == "__main__":
    sys.exit(main(["gateway", *sys.argv[1:]]))
