"""A policy's YAML: a handful of fields, and a line for every complaint."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from schedkit.images.reference import normalize_registry
from schedkit.trust.errors import PolicyError
from schedkit.trust.identities import Identity, Pattern
from schedkit.trust.keys import KeyProblem, VerificationKey, parse_key
from schedkit.trust.plain_yaml import BOOLEAN, DEEPEST, INTEGER, MAPPING, SEQUENCE, STRING, YamlNode, parse_plain_yaml
from schedkit.trust.policy import LARGEST, Policy, Root, Rule

if TYPE_CHECKING:
    import yaml

MOST = 256  # rules, keys, identities
LARGEST_KEY = 64 * 1024
RULE_FIELDS = ("keys", "identities", "threshold", "requireLog", "rekorURL", "trustedRoot")
POLICY_FIELDS = (*RULE_FIELDS, "scopes", "allowUnsigned")
SCOPE_FIELDS = ("images", *RULE_FIELDS)
POSIX_CLASS = r"\[\[?\^?:[a-z]+:\]"  # which RE2 knows, and Python reads as something else
# Who issues certificates for such workflows: narrower than any issuer, as which cosign takes an identity without one.
ISSUERS = {
    "https://github.com/": "https://token.actions.githubusercontent.com",
    "https://gitlab.com/": "https://gitlab.com",
}
_IMAGES = r"[a-zA-Z0-9.:_*/\[\]-]+"

T = TypeVar("T")


def parse_policy(data: bytes, origin: str, folder: Path) -> Policy:
    """The policy in these bytes; the files it names are looked for from `folder` on."""
    return _Reader(origin, folder).read(data)


class _Reader:
    """Takes values out of the tree, whose nodes know their lines."""

    def __init__(self, origin: str, folder: Path) -> None:
        self._origin = origin
        self._folder = folder

    def read(self, data: bytes) -> Policy:
        tree = self._compose(data)
        table = self._table(tree, POLICY_FIELDS, "the policy")
        scopes = [self._scope(node) for node in self._list(table, "scopes")]
        unsigned = tuple(self._pattern(item) for item in self._list(table, "allowUnsigned"))
        rules = list(scopes)
        if "keys" in table or "identities" in table:
            rules.append(self._rule(tree, table, "default", ()))
        elif not scopes and not unsigned:
            raise self._wrong(tree, "the policy trusts no one", "add keys or identities, or scopes with them")
        elif left := next((name for name in RULE_FIELDS if name in table), None):
            raise self._wrong(
                table[left], f"{left} belongs to keys or identities beside it", "scopes have a field of that name too"
            )
        return Policy(self._origin, tuple(rules), unsigned)

    def _scope(self, node: YamlNode) -> Rule:
        table = self._table(node, SCOPE_FIELDS, "a scope")
        images = tuple(self._pattern(item) for item in self._list(table, "images"))
        if not images:
            raise self._wrong(node, "a scope without images", 'images: ["ghcr.io/me/*"]')
        return self._rule(node, table, ", ".join(images), images)

    def _rule(self, node: YamlNode, table: dict[str, YamlNode], name: str, images: tuple[str, ...]) -> Rule:
        keys = tuple(self._key(item) for item in self._list(table, "keys"))
        identities = tuple(self._identity(item) for item in self._list(table, "identities"))
        if not keys and not identities:
            raise self._wrong(node, "this rule trusts no one", "add keys or identities")
        threshold = self._value(table, "threshold", self._number, 1)
        most = len({key.fingerprint for key in keys}) + len(set(identities))
        if threshold > most:
            raise self._wrong(
                table["threshold"],
                f"threshold is {threshold}, and there are {most} different keys and identities to reach it",
                "lower it, or name more",
            )
        return Rule(
            name,
            images,
            keys,
            identities,
            threshold,
            self._value(table, "requireLog", self._switch, None),
            self._value(table, "rekorURL", self._url, ""),
            self._value(table, "trustedRoot", self._root, None),
        )

    def _key(self, node: YamlNode) -> VerificationKey:
        table = self._table(node, ("path",), "a key")
        if "path" not in table:
            raise self._wrong(node, "a key without a path", "path: cosign.pub")
        path = self._text(table["path"])
        try:
            return parse_key(self._read_file(table["path"], path, LARGEST_KEY), path)
        except KeyProblem as error:
            raise self._wrong(
                table["path"],
                f"the key {path}: {error}",
                "a key is the file cosign.pub that `cosign generate-key-pair` makes",
            ) from error

    def _identity(self, node: YamlNode) -> Identity:
        table = self._table(node, ("issuer", "issuerRegExp", "subject", "subjectRegExp"), "an identity")
        subject = self._side(table, "subject")
        if subject is None:
            raise self._wrong(
                node, "an identity needs a subject or subjectRegExp", "everybody whom the issuer knows is too many"
            )
        issuer = self._side(table, "issuer") or _infer_issuer(subject)
        if issuer is None:
            raise self._wrong(
                node,
                "an identity needs an issuer or issuerRegExp, because any issuer could issue that name",
                "issuer: https://accounts.google.com, or https://github.com/login/oauth, or whoever it is",
            )
        return Identity(issuer, subject)

    def _side(self, table: dict[str, YamlNode], name: str) -> Pattern | None:
        """The exact text, or the expression; of both the text, which then must match the expression."""
        written = f"{name}RegExp"
        exact = Pattern(self._text(table[name])) if name in table else None
        if written not in table:
            return exact
        expression = self._expression(table[written], written)
        if exact and not expression.matches(exact.text):
            raise self._wrong(table[written], f"{written} does not match {name} beside it", "keep one of the two")
        return exact or expression

    def _expression(self, node: YamlNode, name: str) -> Pattern:
        text = self._text(node)
        try:
            if re.search(POSIX_CLASS, text):
                raise re.error("[:…:] has no meaning in it")
            re.compile(text, re.ASCII)
        except (re.error, RecursionError, OverflowError) as error:
            raise self._wrong(
                node, f"{name} {text!r} is not a regular expression: {error}", "in Python's syntax"
            ) from error
        return Pattern(text, is_expression=True)

    def _pattern(self, node: YamlNode) -> str:
        text = self._text(node)
        last = text.rpartition("/")[2]
        if not re.fullmatch(_IMAGES, text) or ":" in last:
            raise self._wrong(
                node,
                f"{text!r} is not a pattern of repositories",
                "REGISTRY/PATH without tag and digest; * and ** stand for more",
            )
        if "/" not in text and "**" not in text:
            raise self._wrong(
                node, f"{text!r} fits no image, as each has a registry and a path", "ghcr.io/me/*, or ** for all images"
            )
        registry, slash, path = text.partition("/")
        return f"{normalize_registry(registry)}{slash}{path}"

    def _url(self, node: YamlNode) -> str:
        text = self._text(node)
        if not re.fullmatch(r"https?://[^\s/]+\S*", text):
            raise self._wrong(node, f"rekorURL {text!r} is not a URL", "rekorURL: https://rekor.sigstore.dev")
        return text.rstrip("/")

    def _root(self, node: YamlNode) -> Root:
        from schedkit.trust.trusted_root import parse_trusted_root

        path = self._text(node)
        data = self._read_file(node, path, 1 << 20)
        try:
            parse_trusted_root(data, path)
        except PolicyError as error:
            raise self._wrong(node, error.message, error.hint) from error
        return Root(path, data)

    def _read_file(self, node: YamlNode, path: str, most: int) -> bytes:
        try:
            with (self._folder / path).open("rb") as file:
                data = file.read(most + 1)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "not a path"
            raise self._wrong(
                node, f"{path} cannot be read: {why}", f"a relative path starts at the policy's folder, {self._folder}"
            ) from error
        if len(data) > most:
            raise self._wrong(node, f"{path} has more than {most} bytes", "is it the right file?")
        return data

    def _compose(self, data: bytes) -> YamlNode:
        if len(data) > LARGEST:
            raise PolicyError(f"the trust policy {self._origin} has more than {LARGEST} bytes")
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise PolicyError(f"the trust policy {self._origin} is not UTF-8 text") from error
        return parse_plain_yaml(text) or self._compose_any(text)

    def _compose_any(self, text: str) -> YamlNode:
        import yaml

        try:
            depth = 0
            for event in yaml.parse(text, Loader=yaml.SafeLoader):
                depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
                if isinstance(event, yaml.AliasEvent) or depth > DEEPEST:
                    line = event.start_mark.line
                    raise self._wrong(YamlNode("", line), "aliases and deep nesting are not taken", "write it out")
            tree = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            raise PolicyError(
                f"{self._origin}, line {line}: not YAML: {error.problem or error.context}", hint="fix the file"
            ) from error
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise PolicyError(f"the trust policy {self._origin} is not YAML", hint="fix the file") from error
        if tree is None:
            raise PolicyError(f"the trust policy {self._origin} is empty", hint="name keys or identities in it")
        return convert(tree)

    def _table(self, node: YamlNode, known: tuple[str, ...], what: str) -> dict[str, YamlNode]:
        table: dict[str, YamlNode] = {}
        for key, value in self._pairs(node, what):
            name = self._text(key)
            if name not in known:
                raise self._wrong(key, f"{what} has no field {name!r}", f"known fields: {', '.join(known)}")
            if name in table:
                raise self._wrong(key, f"{name} is there twice", "keep one of the two")
            table[name] = value
        return table

    def _pairs(self, node: YamlNode, what: str) -> Iterator[tuple[YamlNode, YamlNode]]:
        if node.kind != MAPPING:
            raise self._wrong(node, f"{what} must be a table", "FIELD: VALUE")
        return iter(node.pairs)

    def _list(self, table: dict[str, YamlNode], name: str) -> list[YamlNode]:
        if name not in table:
            return []
        node = table[name]
        if node.kind != SEQUENCE or len(node.items) > MOST:
            raise self._wrong(node, f"{name} must be a list", f"{name}: and below it lines that begin with -")
        return list(node.items)

    def _value(self, table: dict[str, YamlNode], name: str, read: Callable[[YamlNode], T], default: T) -> T:
        return read(table[name]) if name in table else default

    def _text(self, node: YamlNode) -> str:
        if node.kind != STRING or not node.text or not node.text.isprintable():
            raise self._wrong(node, "a string is needed here", 'put it into quotes: "…"')
        return node.text

    def _number(self, node: YamlNode) -> int:
        if node.kind != INTEGER or not re.fullmatch("[1-9][0-9]{0,5}", node.text):
            raise self._wrong(node, "a number of at least 1 is needed here", "threshold: 2")
        return int(node.text)

    def _switch(self, node: YamlNode) -> bool:
        said = {"true": True, "false": False}.get(node.text.lower()) if node.kind == BOOLEAN else None
        if said is None:
            raise self._wrong(node, "true or false is needed here", "requireLog: true")
        return said

    def _wrong(self, node: YamlNode, what: str, hint: str) -> PolicyError:
        return PolicyError(f"{self._origin}, line {node.line + 1}: {what}", hint=hint)


def _infer_issuer(subject: Pattern) -> Pattern | None:
    """Who must have confirmed such a subject; None where that can be anybody."""
    start = re.sub(r"^(\^|\\A)", "", subject.text).replace("\\", "") if subject.is_expression else subject.text
    return next((Pattern(issuer) for prefix, issuer in ISSUERS.items() if start.startswith(prefix)), None)


def convert(node: "yaml.Node") -> YamlNode:
    """PyYAML's tree as ours."""
    import yaml

    line = node.start_mark.line
    if isinstance(node, yaml.MappingNode):
        return YamlNode(MAPPING, line, pairs=tuple((convert(key), convert(value)) for key, value in node.value))
    if isinstance(node, yaml.SequenceNode):
        return YamlNode(SEQUENCE, line, items=tuple(map(convert, node.value)))
    return YamlNode(node.tag.removeprefix("tag:yaml.org,2002:"), line, node.value)
