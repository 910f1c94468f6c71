"""The implementation. Nothing here is public: import from the modules next to this package."""
