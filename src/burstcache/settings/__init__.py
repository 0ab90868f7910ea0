"""Settings: a typed object per function, read once from the environment. A missing variable fails at startup.

Each function has a settings module named after its handler, and imports no other settings module. Programs that use a
stack's settings also have modules. Defaults are in template.yaml only.
"""
