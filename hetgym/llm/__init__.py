"""Language models on people's machines: where the layers go, whether they fit, how fast they run, and what to type."""

from hetgym.llm.answers import DeviceShare, Given, LlmPlan, Option, Rate
from hetgym.llm.planning import plan_llm

__all__ = ["DeviceShare", "Given", "LlmPlan", "Option", "Rate", "plan_llm"]
