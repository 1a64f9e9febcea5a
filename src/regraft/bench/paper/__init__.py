"""The paper's experiments, from pixels to tables and figures."""
