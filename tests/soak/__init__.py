"""Long and random: whatever is killed, refused or lost on the way, the end is the same (`make soak`)."""
