"""The gateway: S3's protocol for clients of any language, on the reader's machine."""
