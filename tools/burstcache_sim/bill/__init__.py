"""What a trace costs, here and with what one could buy instead."""
