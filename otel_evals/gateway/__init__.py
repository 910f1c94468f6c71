"""The service: the stages of live scoring behind receivers of OTLP, for agents in any language."""
