"""Operands of SASS instructions: from nvdisasm's text to `Operand`."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

from warpsim.frontend.program import RZ, URZ, Operand

__all__ = ["parse_guard", "parse_operands"]

LABELLED = frozenset({"BRA", "BSSY", "CALL", "JMP", "LEPC"})  # a hexadecimal last operand is a place in the code

REGISTER = re.compile(r"(-?)(~?)(\|?)(U?R)(\d+|Z)(\|?)((?:\.\w+)*)")
PREDICATE = re.compile(r"(!?)(U?P)(\d|T)((?:\.\w+)*)")
HEX = re.compile(r"([-~!]?)0x([0-9a-f]+)")
CONSTANT = re.compile(r"(-?)(~?)(\|?)c\[0x([0-9a-f]+)\]\[(.*?)\](\|?)((?:\.\w+)*)")
ADDRESS = re.compile(r"\[(.*?)\]((?:\.\w+)*)")
DESCRIPTOR = re.compile(r"desc\[(UR\d+|URZ)\](\[.*\](?:\.\w+)*)?")
NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?(?:e[+-]?\d+)?|INF|S?NAN|QNAN)")
NUMBERED = re.compile(r"(SB|B)(\d+)")


def parse_operands(base: str, modifiers: tuple[str, ...], text: str, encoding: int) -> tuple[Operand, ...]:
    """All operands of an instruction, in printed order.

    Immediates in hexadecimal are as printed; other numbers (floats) are bits 32-63 of the encoding, where a pair of
    halves is one operand. `desc[UR4][R2.64]` gives a descriptor and an address.
    """
    operands: list[Operand] = []
    raw = encoding >> 32 & 0xFFFFFFFF
    for token in _tokens(text):
        if NUMBER.fullmatch(token):
            if not (base.startswith("H") and operands and operands[-1].kind == "imm"):
                operands.append(Operand("imm", value=raw))
            continue
        operands += _parse(token)
    if "E" in modifiers and base != "LDGSTS":  # 64-bit addresses; compare-and-swap prints them without .64
        operands = [replace(o, width64=True) if _is_narrow(o) else o for o in operands]
    if operands and operands[-1].kind == "imm" and (base in LABELLED or "COLLECTIVE" in modifiers):
        operands[-1] = Operand("label", value=operands[-1].value // 16)
    return tuple(operands)


def _is_narrow(operand: Operand) -> bool:
    plain = operand.kind == "addr" and operand.index is not None and operand.uindex is None
    return plain and not operand.width64 and not operand.modifiers


def parse_guard(text: str) -> Operand | None:
    """The guard of an instruction, ``@!P0`` or ``@UP1``; None where there is none."""
    return _parse(text.lstrip("@"))[0] if text else None


def _tokens(text: str) -> list[str]:
    """Text between commas that are not in brackets; two addresses without a comma between are two tokens."""
    tokens = re.findall(r"(?:[^,\[{]|\[[^\]]*\]|\{[^}]*\})+", text)
    result = []
    for token in tokens:
        token = token.strip()
        result += re.findall(r"\[[^\]]*\][^\[]*", token) if token.startswith("[") else [token]
    return [token for token in result if token]


@lru_cache(maxsize=65536)
def _parse(token: str) -> tuple[Operand, ...]:
    if m := REGISTER.fullmatch(token):
        minus, tilde, bar, kind, number, bar2, suffix = m.groups()
        modifiers = _modifiers(suffix)
        operand = Operand(
            "reg" if kind == "R" else "ureg",
            index=_number(kind, number),
            width64="64" in modifiers,
            negate=bool(minus),
            invert=bool(tilde),
            absolute=bool(bar and bar2),
            modifiers=tuple(x for x in modifiers if x != "64"),
        )
        return (operand,)
    if m := PREDICATE.fullmatch(token):
        index = 7 if m[3] == "T" else int(m[3])
        return (
            Operand("pred" if m[2] == "P" else "upred", index=index, invert=bool(m[1]), modifiers=_modifiers(m[4])),
        )
    if m := HEX.fullmatch(token):
        value = int(m[2], 16)
        value = -value if m[1] == "-" else ~value if m[1] == "~" else value
        return (Operand("imm", value=value & (0xFFFFFFFF if -(1 << 31) <= value < 1 << 32 else (1 << 64) - 1)),)
    if m := CONSTANT.fullmatch(token):
        inner = _address("const", m[5], _modifiers(m[7]))
        if inner:
            operand = Operand(
                "const",
                index=inner.index,
                value=inner.value,
                bank=int(m[4], 16),
                uindex=inner.uindex,
                negate=bool(m[1]),
                invert=bool(m[2]),
                absolute=bool(m[3] and m[6]),
                modifiers=inner.modifiers,
            )
            return (operand,)
    if m := ADDRESS.fullmatch(token):
        inner = _address("addr", m[1], _modifiers(m[2]))
        if inner:
            return (inner,)
    if m := DESCRIPTOR.fullmatch(token):
        uniform = m[1][2:]
        descriptor = Operand("desc", uindex=URZ if uniform == "Z" else int(uniform))
        return (descriptor, *_parse(m[2])) if m[2] else (descriptor,)
    if m := NUMBERED.fullmatch(token):
        return (Operand("barrier" if m[1] == "B" else "scoreboard", index=int(m[2])),)
    if token in ("PR", "UPR"):
        return (Operand("predset", name=token),)
    if token.startswith("SR"):
        return (Operand("special", name=token),)
    return (Operand("unknown", name=token.strip("`()")),)


def _number(kind: str, text: str) -> int:
    if text == "Z":
        return RZ if kind == "R" else URZ
    return int(text)


def _modifiers(suffix: str) -> tuple[str, ...]:
    return tuple(x for x in suffix.split(".") if x and x != "reuse")


def _address(kind: str, inner: str, modifiers: tuple[str, ...]) -> Operand | None:
    """What stands in brackets: registers and a byte offset, joined by +. RZ and URZ are no register."""
    base: int | None = None
    uniform: int | None = None
    offset, scale, wide = 0, 1, False
    notes: list[str] = []
    for part in inner.split("+"):
        if m := re.fullmatch(r"(U?R)(\d+|Z)((?:\.\w+)*)", part):
            suffixes = _modifiers(m[3])
            if m[1] == "R":
                base = None if m[2] == "Z" else int(m[2])
                wide = wide or "64" in suffixes
                for suffix in suffixes:
                    if re.fullmatch(r"X\d+", suffix):
                        scale = int(suffix[1:])
                    elif suffix != "64":
                        notes.append(suffix)
            else:
                uniform = None if m[2] == "Z" else int(m[2])
                notes += [f"UR.{suffix}" for suffix in suffixes]
        elif m := re.fullmatch(r"(-?)0x([0-9a-f]+)", part):
            offset += -int(m[2], 16) if m[1] else int(m[2], 16)
        else:
            return None
    return Operand(
        kind, index=base, value=offset, uindex=uniform, scale=scale, width64=wide, modifiers=(*modifiers, *notes)
    )
