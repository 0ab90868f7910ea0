"""Research: policies outside the product, over the simulator's own protocol, with runners to measure them."""
