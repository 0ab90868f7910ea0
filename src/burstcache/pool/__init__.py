"""The pool: large objects in the memory of Lambda environments (`docs/understand/architecture.md`, "The pool")."""
