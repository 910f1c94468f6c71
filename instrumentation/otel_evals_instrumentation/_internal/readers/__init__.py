"""What all conventions share: reading attributes, messages, tool calls and documents of spans."""
