"""Terminal helpers for all tools' commands: option types, exit codes and text. Imports only `burstcache.core`."""
