"""The local front door: HTTP in, the event of API Gateway or a load balancer out."""
