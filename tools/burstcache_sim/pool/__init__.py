"""The pool, simulated: members, chunks, reclaims, warm-up, backup; the core decides what lies where and goes first."""
