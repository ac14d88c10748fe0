# SPDX-License-Identifier: Apache-2.0
"""Random templates: expressions and statements of any shape, mostly of types that fit."""
import random

CONTEXT = {
    "s": "Hello World", "t": "  pad\tded \n", "u": "Ünï 你好 👋🏽 ß ǆ", "e": "", "q": "it's \"q\" <b> & \\ \n",
    "w": "well-known words -- and--dashes, one after-another; a_b-c1 supercalifragilisticexpialidocious",
    "links": "(see http://a.org/x_(y)?b=1&amp;c), www.b.net. me@c.de <i>&notit; &#x41;&#147</i> <!-- <b>--> mailto:d@e.fr",
    "digits": "-12", "real": "3.50", "i": 7, "z": 0, "n": -3, "f": 2.5, "g": 1e16, "h": -0.1, "yes": True, "no": False,
    "nil": None, "l": [3, 1, 2], "words": ["banana", "Apple", "cherry", "apple"], "empty": [], "mixed": [1, "a", None, 2.5, True, [1, 2]],
    "pairs": [["b", 2], ["a", 1]], "nested": [[1, [2, 3]], [], [4]], "d": {"b": 1, "a": "x", "C": [1, 2], "n": None}, "none_at_all": {},
    "people": [{"name": "Bob", "age": 30, "tags": ["x"], "at": {"city": "Paris"}}, {"name": "alice", "age": 25, "tags": []},
               {"name": "Carol", "age": 30, "tags": ["y", "z"], "at": {"city": "Oslo"}}],
    "tree": [{"v": 1, "c": [{"v": 2, "c": []}, {"v": 3, "c": [{"v": 4, "c": []}]}]}],
    "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "Hi <|im_end|>"},
                 {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": {"a": [1, 2.0, "é"]}}}]}],
}
STRINGS = ["s", "t", "u", "e", "q", "w", "links", "digits", "real", "messages[1].content", "people[0].name"]
NUMBERS = ["i", "z", "n", "f", "g", "h", "yes"]
LISTS = ["l", "words", "empty", "mixed", "pairs", "nested", "people", "messages"]
DICTS = ["d", "none_at_all", "people[0]", "messages[2]", "people[2].at"]
OTHERS = ["nil", "missing", "d.missing", "no", "true", "none"]
LITERALS = ["'a'", "\"b\\n\"", "'é'", "' '", "', '", "'%'", "'-'", "''", "'l'", "'World'"]


class Random:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.depth = 0
        self.loops = 0
        self.names = []

    def one(self, *options):
        return self.random.choice(options)

    def chance(self, share):
        return self.random.random() < share

    def small(self):
        return str(self.random.choice([0, 1, 2, 3, 4, 5, 8, 10, 13, 40, -1, -2, -5]))

    # -- expressions, by the type that they should have --

    def string(self):
        self.depth += 1
        try:
            if self.depth > 4 or self.chance(0.35):
                return self.one(*STRINGS, *LITERALS, *self.names[:1])
            return self.one(self.method, self.filtered, self.joined, self.sliced, self.formatted, self.printed, self.item)()
        finally:
            self.depth -= 1

    def method(self):
        s, a, n = self.string(), self.one(*LITERALS, "s", "'o'", "'ba'"), self.small()
        return f"({s})." + self.one(
            "upper()", "lower()", "strip()", "lstrip()", "rstrip()", "title()", "capitalize()", "swapcase()", "casefold()",
            f"strip({a})", f"lstrip({a})", f"rstrip({a})", f"replace({a}, '_')", f"replace({a}, {a}, {n})", f"split()[{n}]", f"split({a})[{n}]",
            f"split({a}, {n})", f"rsplit({a}, {n})", f"rsplit(none, {n})", f"split(none, {n})", "splitlines()", "splitlines(true)",
            f"startswith({a})", f"endswith({a})", f"startswith(('H', {a}))", f"find({a})", f"rfind({a})", f"find({a}, {n})", f"find({a}, {n}, 9)",
            f"count({a})", f"index({a})", f"join(words)", f"ljust({n})", f"rjust({n}, '*')", f"center({n}, '.')", f"zfill({n})",
            f"partition({a})", f"rpartition({a})", f"removeprefix({a})", f"removesuffix({a})", "isdigit()", "isalpha()", "isalnum()",
            "isspace()", "islower()", "isupper()", "isdecimal()", "isnumeric()", "expandtabs()", f"expandtabs({n})", "istitle()", "isascii()",
            "isidentifier()", "isprintable()")

    def filtered(self):
        s, a, n = self.string(), self.one(*LITERALS, "'o'"), self.small()
        return f"({s} | " + self.one(
            "upper", "lower", "title", "capitalize", "trim", f"trim({a})", f"replace({a}, '_')", f"replace({a}, {a}, {n})", "length", "wordcount",
            f"truncate({n})", f"truncate({n}, true)", f"truncate(9, false, '..', {n})", f"indent({n})", "indent(2, true)", "indent('> ', false, true)",
            f"center({n})", f"wordwrap({n})", f"wordwrap({n}, false)", f"wordwrap(10, true, '|')", f"wordwrap({n}, true, '/', false)", "e", "escape", "safe", "forceescape",
            "string", "tojson", "urlencode", "striptags", "urlize", f"urlize({n}, true)", "urlize(target='t', rel='b a')", "int", f"int({n})", "int(5, 16)", "float", "float(1.5)", "first", "last", "list", "reverse",
            "default('D')", "default('D', true)", "pprint", "string | length", "map('upper') | join", "select('in', 'aeiou') | list", "unique | join", "sort | join",
            "batch(3) | list", "filesizeformat") + ")"

    def joined(self):
        return self.one(f"({self.string()} ~ {self.value()})", f"({self.string()} + {self.string()})", f"({self.string()} * {self.small()})",
                        f"({self.sequence()} | join({self.string()}))", f"({self.sequence()} | join)", f"({self.sequence()} | string)")

    def sliced(self):
        part = lambda: self.one("", "", self.small())
        return f"({self.string()})[{part()}:{part()}{self.one('', ':' + part())}]"

    def formatted(self):
        conversions = ["%s", "%r", "%d", "%5.2f", "%-6s|", "%06d", "%x", "%X", "%o", "%e", "%g", "%+d", "% d", "%5s", "%.2s", "%%", "%#x", "%G", "%c", "%i", "%.3f", "%05.1f", "%a"]
        fields = ["{}", "{0}", "{:>8}", "{:<6}|", "{:^9}", "{:*^9}", "{:.2f}", "{:05d}", "{:,}", "{:x}", "{!r}", "{:.3}", "{:e}", "{:%}", "{:+}", "{:d}", "{:g}", "{{}}", "{:b}", "{:_}",
                  "{:#x}", "{:.1%}", "{0!s:>5}", "{:08.3f}", "{: }", "{:.0f}", "{:n}", "{:s}", "{:c}", "{0:{1}}"]
        values = [self.value() for _ in range(2)]
        kind = self.random.randrange(4)
        if kind == 0:
            return f"('{self.one(*conversions)} {self.one(*conversions)}' % ({', '.join(values)}))"
        if kind == 1:
            return f"('{self.one(*conversions)}' | format({values[0]}))"
        if kind == 2:
            return f"'{self.one(*fields)}-{self.one(*fields)}'.format({', '.join(values)})"
        return f"('%(a)s {self.one('%(b)d', '%(b)s', '%(b)5.1f')}' | format(a={values[0]}, b={self.number()}))"

    def printed(self):
        options = ["", "", "(indent=2)", "(indent=4, sort_keys=true)", "(ensure_ascii=true)", "(separators=(',', ':'))", "(sort_keys=true)", "(indent=0)", "(indent='\\t')", "(indent=none)"]
        return f"({self.value()} | {self.one('tojson' + self.one(*options), 'string', 'pprint', 'list', 'e')})"

    def item(self):
        return self.one(f"({self.sequence()})[{self.small()}]", f"({self.mapping()})['{self.one('a', 'b', 'name', 'C')}']",
                        f"({self.mapping()}).{self.one('a', 'name', 'C', 'tags')}", f"{self.mapping()}.get('{self.one('a', 'zz')}')", f"{self.mapping()}.get('zz', {self.string()})",
                        f"({self.sequence()} | first)", f"({self.sequence()} | last)", f"({self.string()})[{self.small()}]", f"({self.mapping()} | attr('{self.one('a', 'b')}'))")

    def number(self):
        self.depth += 1
        try:
            if self.depth > 4 or self.chance(0.4):
                return self.one(*NUMBERS, self.small(), "1.5", "0.1", "100", "1_000", "0x1F", "1e3", "2")
            a, b = self.number(), self.number()
            return self.one(f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({a} / {b})", f"({a} // {b})", f"({a} % {b})", f"({a} ** {self.one('2', '0', '-1', '0.5')})",
                            f"(-{a})", f"({a} | abs)", f"({a} | round)", f"({a} | round({self.one('1', '2', '-1', '0')}))", f"({a} | round(1, '{self.one('floor', 'ceil')}'))",
                            f"({a} | int)", f"({a} | float)", f"({self.sequence()} | length)", f"({self.string()} | length)", f"({self.one('l', 'empty')} | sum)",
                            f"(people | {self.one('sum', 'map', 'max', 'min')}(attribute='age'))", f"({self.sequence()} | count)", f"({self.string()} | int)", f"({a} | filesizeformat)",
                            f"({a} | filesizeformat(true))", f"{self.sequence()}.{self.one('count', 'index')}({a})")
        finally:
            self.depth -= 1

    def sequence(self):
        self.depth += 1
        try:
            if self.depth > 4 or self.chance(0.4):
                return self.one(*LISTS, "[]", "()", "[1, 2, 3]", "('a', 'b')", "(range(5) | list)", "(range(5, 0, -2) | list)", "(range(2, 20, 7) | list)")
            l, n = self.sequence(), self.small()
            return self.one(
                f"[{self.value()}, {self.value()}]", f"({self.value()}, )", f"({l} | list)", f"({l} | sort)", f"({l} | sort(reverse=true))", f"({l} | sort(case_sensitive=true))",
                f"({l} | reverse | list)", f"({l} | unique | list)", f"({l} | batch({n}) | list)", f"({l} | batch(2, '-') | list)", f"({l} | slice({n}) | list)", f"({l} | slice(2, '-') | list)",
                f"({l} | map('{self.one('string', 'upper', 'length', 'int', 'tojson', 'title', 'first')}') | list)", f"({l} | map('default', 'D') | list)",
                f"({l} | select('{self.one('string', 'number', 'defined', 'none', 'mapping', 'odd', 'sequence', 'true', 'integer', 'float', 'iterable', 'boolean')}') | list)",
                f"({l} | reject('{self.one('string', 'number', 'none', 'odd', 'false')}') | list)", f"({l} | select | list)", f"({l} | reject('eq', 1) | list)", f"({l} | select('in', [1, 'a']) | list)",
                "(people | sort(attribute='name') | map(attribute='name') | list)", "(people | sort(attribute='age,name') | map(attribute='name') | list)",
                "(people | map(attribute='at.city', default='?') | list)", "(people | map(attribute='at.city') | list)", "(people | selectattr('at') | map(attribute='name') | list)",
                f"(people | {self.one('selectattr', 'rejectattr')}('age', '{self.one('eq', 'gt', 'lt', 'ge', '==', '<', 'in')}', {self.one('30', '25', '[25]')}) | list)",
                "(people | groupby('age') | list)", "(people | groupby('at.city', default='x') | list)", "(people | rejectattr('tags') | list)", f"(words | groupby({n}) | list)",
                f"({self.mapping()} | dictsort)", f"({self.mapping()} | dictsort(true, 'value'))", f"({self.mapping()} | dictsort(reverse=true))", f"({self.mapping()} | items | list)", f"({self.mapping()}.items() | list)",
                f"({self.mapping()}.keys() | list)", f"({self.mapping()}.values() | list)", f"({self.mapping()} | list)", f"{l}[{self.one('', n)}:{self.one('', self.small())}]", f"{l}[::-1]", f"({l} + {self.sequence()})", f"({l} * 2)",
                f"({self.string()} | list)", f"{self.string()}.split()", f"({l} | sum(start=[]))", f"({self.one('words', 'l')} | {self.one('min', 'max')})")
        finally:
            self.depth -= 1

    def mapping(self):
        if self.depth > 3 or self.chance(0.6):
            return self.one(*DICTS, "{}")
        self.depth += 1
        try:
            return self.one(f"{{'a': {self.value()}, 'b': {self.value()}}}", f"dict(x={self.value()}, **d)", f"{{1: {self.value()}, none: 2, true: 3, 2.5: 4}}", f"dict({self.mapping()})", f"dict([('a', {self.value()})])")
        finally:
            self.depth -= 1

    def truth(self):
        self.depth += 1
        try:
            if self.depth > 4:
                return self.one("true", "no", "yes", "i > 3")
            a, b = self.value(), self.value()
            return self.one(
                f"{a} == {b}", f"{a} != {b}", f"{self.number()} {self.one('<', '<=', '>', '>=')} {self.number()}", f"{self.string()} < {self.string()}", f"{a} in {self.sequence()}", f"{self.string()} in {self.string()}",
                f"{self.string()} not in {self.mapping()}", f"not {a}", f"{self.truth()} and {self.truth()}", f"{self.truth()} or {self.truth()}", f"({self.truth()})", f"{self.number()} < {self.number()} <= {self.number()}",
                f"{a} is {self.one('', 'not ')}{self.one('defined', 'undefined', 'none', 'string', 'number', 'integer', 'float', 'mapping', 'sequence', 'iterable', 'boolean', 'true', 'false', 'callable', 'escaped')}",
                f"{self.number()} is {self.one('odd', 'even', 'divisibleby 3', 'divisibleby(2)', 'eq 3', 'gt(2)', 'lessthan 5', 'ne 7')}", f"{self.string()} is {self.one('lower', 'upper')}", f"{a} is sameas none", f"{a} is in {self.sequence()}",
                f"'{self.one('upper', 'nope', 'tojson')}' is filter", f"'{self.one('odd', 'nope')}' is test", f"{a} is eq({b})")
        finally:
            self.depth -= 1

    def value(self):
        if self.depth > 4:
            return self.one(*STRINGS, *NUMBERS, *LISTS, *DICTS, *OTHERS)
        kind = self.random.random()
        if kind < 0.3:
            return self.string()
        if kind < 0.5:
            return self.number()
        if kind < 0.7:
            return self.sequence()
        if kind < 0.8:
            return self.mapping()
        if kind < 0.87:
            return f"({self.truth()})"
        if kind < 0.93:
            self.depth += 1
            try:
                return f"({self.value()} if {self.truth()}{self.one('', ' else ' + self.value())})"
            finally:
                self.depth -= 1
        return self.one(*OTHERS)

    # -- statements --

    def text(self):
        return self.one("", "", "x", " ", "\n", "\n\n", "  \n", " a ", "\n  ", "b\n", "{ ", "} %", "\r\n", "é", "# ", "\t")

    def tag(self, inner, kind="%"):
        left, right = (("{%", "%}") if kind == "%" else ("{{", "}}") if kind == "{" else ("{#", "#}"))
        return f"{left}{self.one('', '', '-', '-', '+')} {inner} {self.one('', '', '-', '-', '+' if kind != '{' else '')}{right}"

    def output(self):
        return self.tag(self.value(), "{")

    def block(self, count=None):
        return "".join(self.text() + self.statement() for _ in range(count or self.random.randrange(1, 4))) + self.text()

    def statement(self):
        if self.depth > 2 or self.chance(0.45):
            return self.output()
        self.depth += 1
        try:
            return self.one(self.if_, self.for_, self.set_, self.set_block, self.macro, self.call, self.filter_block, self.with_, self.raw, self.comment, self.name_space,
                            self.recursive, self.generation)()
        finally:
            self.depth -= 1

    def if_(self):
        more = self.tag(f"elif {self.truth()}") + self.block(1) if self.chance(0.3) else ""
        other = self.tag("else") + self.block(1) if self.chance(0.5) else ""
        return self.tag(f"if {self.truth()}") + self.block() + more + other + self.tag("endif")

    def for_(self):
        head = self.one(f"for x in {self.sequence()}", f"for x in {self.sequence()}", f"for k, v in {self.mapping()}.items()", f"for k, v in {self.mapping()} | dictsort", "for a, b in pairs",
                        f"for x in {self.sequence()} if {self.one('x', 'x is string', 'loop is defined', 'x != 1')}", f"for c in {self.string()}", "for g in people | groupby('age')", f"for (x) in {self.sequence()}")
        loop = self.tag("loop." + self.one("index", "index0", "first", "last", "length", "revindex", "revindex0", "previtem", "nextitem", "depth", "depth0", "cycle('a', 'b')", "changed(x)",
                                           "cycle(*words)", "previtem is defined", "changed(loop.index // 2)"), "{")
        inner = self.one("x", "k", "v", "c", "g.grouper", "g.list | length", "x.name", "a ~ b")
        stop = self.tag(f"if loop.index {self.one('==', '>')} {self.one('1', '2', '3')}") + self.tag(self.one("break", "continue")) + self.tag("endif") if self.chance(0.3) else ""
        other = self.tag("else") + self.block(1) if self.chance(0.25) else ""
        return self.tag(head) + self.text() + stop + loop + self.tag(inner, "{") + self.block(1) + other + self.tag("endfor")

    def set_(self):
        self.names = [self.one("v1", "v2")]
        return self.tag(f"set {self.names[0]} = {self.value()}") if self.chance(0.8) else self.tag(f"set v1, v2 = {self.value()}, {self.value()}")

    def set_block(self):
        return self.tag("set v1" + self.one("", " | upper", " | trim | length", " | replace('a', 'b')")) + self.block(1) + self.tag("endset") + self.tag("v1", "{")

    def macro(self):
        parameters = self.one("", "a", "a, b=2", "a='x', b=a", "a, b")
        body = self.one("{{ a }}", "{{ b }}", "{{ varargs }}", "{{ kwargs }}", "{{ caller is defined }}", "{{ a }}{{ varargs }}{{ kwargs | tojson }}", "{{ caller() if caller }}")
        call = self.one("m()", "m(1)", "m(1, 2)", f"m({self.value()})", "m(b=3)", "m(1, b='y')", "m(*[1, 2])", "m(**{'a': 1})", "m(1, 2, 3)", "m(z=1)", "m.name", "m", "m(1) ~ m(2)", "m(1) | upper", "(m(1), )", "m(missing)")
        return self.tag(f"macro m({parameters})") + body + self.block(1) + self.tag("endmacro") + self.tag(call, "{")

    def call(self):
        head, arguments = self.one(("call m()", "()"), ("call(x) m()", f"({self.value()})"), ("call(x, y=1) m()", "('p')"), ("call m()", "('too many')"))
        return (self.tag("macro m()") + "[" + self.tag("caller" + arguments, "{") + "]" + self.tag("endmacro") + self.tag(head) + self.tag("x", "{") + self.block(1) +
                self.tag("endcall"))

    def filter_block(self):
        return self.tag("filter " + self.one("upper", "trim", "replace('e', '3')", "indent(2) | title", "length", "tojson", "wordwrap(8)", "e", "center(20)")) + self.block(1) + self.tag("endfilter")

    def with_(self):
        return self.tag(f"with {self.one('w1 = ' + self.value(), 'w1 = 1, w2 = ' + self.value(), '')}") + self.tag("w1", "{") + self.block(1) + self.tag("endwith")

    def raw(self):
        return self.tag("raw") + self.text() + "{{ x }}{% if %}" + self.text() + self.tag("endraw")

    def comment(self):
        return self.tag(self.one("", "a", "{{ x }}", "\n"), "#")

    def name_space(self):
        return (self.tag(f"set ns = namespace(a={self.value()}, b=0)") + self.tag(f"for x in {self.sequence()}") + self.tag("set ns.b = ns.b + 1") + self.tag(f"set ns.a = {self.one('x', 'ns.a', 'loop.index')}") +
                self.tag("endfor") + self.tag("ns.a", "{") + self.tag("ns.b", "{") + self.tag("ns.c", "{"))

    def recursive(self):
        return (self.tag("for x in tree recursive") + self.tag("x.v", "{") + self.tag(self.one("loop.depth", "loop.index", "loop.length", "loop.last"), "{") + self.tag("if x.c") + "(" + self.tag("loop(x.c)", "{") + ")" +
                self.tag("endif") + self.tag("endfor"))

    def generation(self):
        return self.tag("generation") + self.block(1) + self.tag("endgeneration")


def template(seed):
    made = Random(seed)
    return made.block(made.random.randrange(1, 5))
