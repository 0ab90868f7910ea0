"""Large objects in the memory of many members: `docs/understand/architecture.md`, "The pool"."""
