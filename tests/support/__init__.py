"""Support code that tests share."""
