"""The template pipeline from `template.yaml` to resources: read, parameters, transform, resolve, complete."""
