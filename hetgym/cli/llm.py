"""``hetgym llm``: a language model on a machine, for the program that runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hetgym.cli.options import JsonOption

if TYPE_CHECKING:
    from hetgym.llm.answers import DeviceShare, LlmPlan, Rate


def llm(
    model: Annotated[
        str,
        typer.Argument(
            help="A name (see 'hetgym list llms'), also as the Hub or ollama writes it, a config.json or the folder "
            "that holds one, or a .gguf file."
        ),
    ],
    platform: Annotated[
        list[str],
        typer.Option(
            help="A line such as '3090+2080Ti, 64GB ddr4-3600', a preset, a YAML file, or a description of a machine. "
            "Several are compared in a table."
        ),
    ],
    target: Annotated[
        str,
        typer.Option(
            help="Program that runs the model: llama.cpp, ollama, vllm, accelerate, exo, onnxruntime, pipelining or "
            "megatron."
        ),
    ] = "llama.cpp",
    quant: Annotated[
        str, typer.Option(help="Format of the weights, such as Q4_K_M, AWQ or FP8. Default: as stored.")
    ] = "",
    context: Annotated[str, typer.Option(help="Tokens that the caches hold, such as 8192 or 32k, or max.")] = "4096",
    cache: Annotated[
        str, typer.Option(help="Format of the caches, or of keys and of values: f16, q8_0, q8_0,q4_0, fp8.")
    ] = "f16",
    batch: Annotated[int, typer.Option(help="Sequences that are decoded at once.")] = 1,
    step: Annotated[int, typer.Option(help="Tokens of a prompt that are passed at once.")] = 512,
    prompt: Annotated[int, typer.Option(help="Tokens of the prompt whose rate is stated.")] = 512,
    reserve: Annotated[str, typer.Option(help="Memory that each GPU keeps free, as in 2GB or gpu0=2GB,gpu1=1GB.")] = "",
    given: Annotated[
        str,
        typer.Option(
            help="Compare with this split: arguments of llama.cpp, a device map as JSON, or the numbers of "
            "VLLM_PP_LAYER_PARTITION."
        ),
    ] = "",
    as_json: JsonOption = False,
) -> int:
    """Place a language model on a machine: does it fit, how fast is it, and what to type.

    Shows what each device holds, tokens a second with the interval in which most measured rates lie, the largest
    context, and the arguments of the program.
    """
    from hetgym.cli.console import print_json, tell
    from hetgym.errors import ConfigError, HetgymError
    from hetgym.graph.model_names import load_language_model
    from hetgym.llm.planning import plan_llm

    tokens, kept, loaded = _tokens(context), _reserve(reserve), load_language_model(model, quant)
    for note in loaded.notes:
        tell(note)
    plans: list[LlmPlan | str] = []
    for one in platform:
        try:
            plans.append(
                plan_llm(
                    loaded, one, target=target, context=tokens, cache=cache, batch=batch, step=step, prompt=prompt,
                    reserve=kept, given=given,
                )
            )  # fmt: skip
        except ConfigError:
            raise
        except HetgymError as error:
            if len(platform) == 1:
                raise
            plans.append(f"{one}: {error}")
    made = [plan for plan in plans if not isinstance(plan, str)]
    if as_json:
        whole = [{"error": plan} if isinstance(plan, str) else plan.to_dict() for plan in plans]
        print_json(whole[0] if len(whole) == 1 else {"plans": whole})
    elif len(platform) > 1:
        _compare(plans)
    else:
        _show(made[0], prompt)
    return 0 if len(made) == len(plans) and all(plan.given is None or plan.given.fits for plan in made) else 1


def _tokens(text: str) -> int | str:
    """Tokens of a context: a number, or thousands of 1024 behind which k stands."""
    number = text.lower().removesuffix("k")
    if not number.isascii() or not number.isdigit() or len(number) > 8:
        return text
    return int(number) * (1024 if number != text else 1)


def _reserve(text: str) -> float | dict[str, float] | None:
    from hetgym._input.sizes import parse_size

    if not text:
        return None
    if "=" not in text:
        return parse_size(text)
    pairs = [part.partition("=") for part in text.split(",")]
    return {name.strip(): parse_size(amount) for name, _, amount in pairs}


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _interval(rate: Rate) -> str:
    return f"{_rate(rate.mid)} tokens/s ({_rate(rate.low)} to {_rate(rate.high)})"


def _compare(plans: list[LlmPlan | str]) -> None:
    from hetgym.cli.console import print_table, say
    from hetgym.cli.tables import table_of

    table = table_of("machine", "decode, tok/s", "prompt, tok/s", "largest context", left=("machine",))
    made = [plan for plan in plans if not isinstance(plan, str)]
    for one in sorted(made, key=lambda plan: -plan.decode_tokens_per_second.mid):
        rates = one.decode_tokens_per_second, one.prefill_tokens_per_second
        table.add_row(one.platform, *(_rate(rate.mid) for rate in rates), f"{one.largest_context:,}")
    print_table(table)
    for plan in plans:
        if isinstance(plan, str):
            say(plan)


def _show(plan: LlmPlan, tokens: int) -> None:
    from hetgym._text import duration
    from hetgym.cli.console import print_table, say

    decode, prompt = plan.decode_tokens_per_second, plan.prefill_tokens_per_second
    say(f"{plan.model} on {plan.platform} with {plan.target}, {plan.context:,} tokens", "bold")
    say(f"decode {_interval(decode)} with a full cache, {_rate(plan.empty_tokens_per_second.mid)} with an empty one")
    say(f"prompt {_interval(prompt)}, first token behind {tokens:,} after {duration(plan.first_token_seconds)}")
    print_table(_devices(plan.devices))
    say("layers: " + ", ".join(f"{name} {first} to {end - 1}" for name, first, end in plan.stages))
    say(plan.flags)
    if plan.largest_context > plan.context:
        say(f"largest context without more on the CPU: {plan.largest_context:,} tokens")
        if plan.largest_context_flags.replace(str(plan.largest_context), str(plan.context)) != plan.flags:
            say(plan.largest_context_flags)
    for option in plan.options:
        rate = option.decode_tokens_per_second
        say(f"{option.name} split: " + ("does not fit" if rate is None else f"{_rate(rate)} tokens/s"))
    free = plan.free_of_rules.decode_tokens_per_second
    if free is not None and free > 1.01 * decode.mid:
        say(f"without the limits of {plan.target}: {_rate(free)} tokens/s")
    _given(plan)


def _given(plan: LlmPlan) -> None:
    from hetgym.cli.console import print_table, say

    given = plan.given
    if given is None:
        return
    say("the given split " + ("fits" if given.fits else "does not fit"), "bold")
    print_table(_devices(given.devices))
    say(f"it decodes {_rate(given.decode_tokens_per_second)} tokens/s, {given.of_best:.0%} of the best")
    if given.change is not None and given.change.decode_tokens_per_second is not None:
        say(f"the change that gains most: {_rate(given.change.decode_tokens_per_second)} tokens/s with")
        say(given.change.flags)


def _devices(devices: tuple[DeviceShare, ...]):  # type: ignore[no-untyped-def]
    from hetgym.cli.tables import table_of
    from hetgym.errors import size

    mixture = any(device.experts for device in devices)
    heads = ["device", "layers", *(["experts"] if mixture else []), "weights", "cache", "buffers", "reserve", "free"]
    table = table_of(*heads, left=("device",))
    for device in devices:
        sums = device.weights_bytes, device.cache_bytes, device.buffers_bytes, device.reserve_bytes, device.free_bytes
        counts = [str(device.layers), *([str(device.experts)] if mixture else [])]
        table.add_row(device.name, *counts, *(f"-{size(-x)}" if x < 0 else size(x) for x in sums))
    return table
