"""The local front door, which converts HTTP requests into events of API Gateway or a load balancer."""
