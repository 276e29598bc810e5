"""The OpenAPI 3.1 document, made from the table of routes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...protocol.version import __version__
from .routes import Field, Route


def document(routes: Iterable[Route], prefix: str) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(prefix + route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "pyzk-server",
            "version": __version__,
            "description": "Control of a ZooKeeper server in tests: sessions, time, faults, tree, history.",
        },
        "paths": paths,
    }


def _operation(route: Route) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in route.parameters
    ]
    operation: dict[str, Any] = {"summary": route.summary, "operationId": _name(route)}
    if not route.has_body:
        parameters += [
            {"name": name, "in": "query", "required": field.required, "schema": _schema(field)}
            for name, field in route.fields.items()
        ]
    else:
        required = [name for name, field in route.fields.items() if field.required]
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {name: _schema(field) for name, field in route.fields.items()},
            "additionalProperties": False,
        }
        if required:
            schema["required"] = required
        operation["requestBody"] = {
            "required": bool(required),
            "content": {"application/json": {"schema": schema}},
        }
    if parameters:
        operation["parameters"] = parameters
    problem = {"application/problem+json": {"schema": {"type": "object"}}}
    operation["responses"] = {
        "200": {"description": route.answer},
        "default": {"description": "Refused; `detail` says what to do.", "content": problem},
    }
    return operation


def _name(route: Route) -> str:
    parts = [part.strip("{}").replace(".", "_") for part in route.path.split("/") if part]
    return "_".join([route.method.lower(), *parts])


def _schema(field: Field) -> dict[str, Any]:
    schema: dict[str, Any] = {"description": field.help}
    kinds = [kind for kind in field.kind.split("|") if kind != "any"]
    if kinds:
        schema["type"] = kinds[0] if len(kinds) == 1 else kinds
    if "array" in kinds:
        schema["items"] = {} if field.items == "any" else {"type": field.items}
    if field.choices:
        schema["enum"] = list(field.choices)
    return schema
