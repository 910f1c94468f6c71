"""The promises of the documentation, through public interfaces only; see the contract `behaviour`."""
