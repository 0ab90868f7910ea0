"""From `template.yaml` to resources: read, parameters, transform, resolve, complete."""
