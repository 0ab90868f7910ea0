"""Open-loop replay of a trace against a live stack. Requests are sent on schedule, even if the stack is slow."""
