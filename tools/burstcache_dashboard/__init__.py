"""The dashboard, a read-only web page about a stack that is served on the user's own machine."""
