"""The library with the oldest and the newest versions of what it depends on, in environments of its own."""
