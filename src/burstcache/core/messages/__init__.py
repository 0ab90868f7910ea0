"""The messages between the processes of a stack, by channel and sender."""
