"""Plans in the forms of other programs: ONNX Runtime, Accelerate, llama.cpp, torch.distributed.pipelining, and JSON.

:func:`export_plan` writes a plan; :data:`FORMATS` lists the forms. No form needs the program that it is for, and a plan
that a form cannot hold is refused with a sentence that says what would be lost.
"""

from hetgym.export.formats import FORMATS, Format, export_plan, find_format, plan_schema

__all__ = ["FORMATS", "Format", "export_plan", "find_format", "plan_schema"]
