//! Tables of expressions: what they give, how they fail, what is said of those that do not compile.
#![allow(clippy::unwrap_used)] // what a helper of a test cannot do fails the test

use triptych_cel::{Activation, Budget, Environment, Type, Value};
use triptych_object::json;

const DOCUMENT: &str =
    r#"{"s":"hello","n":3,"f":1.5,"b":true,"z":null,"l":[3,1,2],"m":{"a":1,"b":2},"t":["x","y"],"o":{"p":{"q":"r"}}}"#;

fn environment() -> Environment {
    Environment::new().variable("self", Type::Dyn).variable("i", Type::Int)
}

fn eval(text: &str) -> Result<String, String> {
    let document = json::from_slice(DOCUMENT.as_bytes()).unwrap();
    let program = environment().compile(text).map_err(|issues| issues.to_string())?;
    let variables = [("self", Value::of(&document)), ("i", Value::Int(7))];
    let outcome = program.evaluate(&variables as &dyn Activation<'_>, &mut Budget::default());
    outcome.map(|v| v.to_string()).map_err(|e| e.to_string())
}

#[test]
fn expressions_are_true() {
    for text in [
        "1 + 2 * 3 == 7",
        "-(1) == -1 && --1 == 1",
        "7 / 2 == 3 && -7 / 2 == -3 && 7 % 3 == 1",
        "1u + 2u == 3u",
        "dyn(1) == 1.0 && dyn(1u) == 1 && 2.5 > 2 && 1u < 2",
        "'a' + 'b' == 'ab' && 'abc' < 'abd'",
        "[1, 2] + [3] == [1, 2, 3]",
        "2 in [1, 2] && !(3 in [1, 2]) && 'a' in {'a': 1}",
        "true ? true : (1 / 0 > 0)",
        "false && (1 / 0 > 0) == false || true",
        "true || 1 / 0 > 0",
        "(1 / 0 > 0) || true",
        "[1, 2, 3].all(x, x > 0) && [1, 2, 3].exists(x, x == 2) && [1, 2].exists_one(x, x == 1)",
        "[1, 2, 3].map(x, x * 2) == [2, 4, 6] && [1, 2, 3].map(x, x > 1, x * 2) == [4, 6]",
        "[1, 2, 3].filter(x, x > 1) == [2, 3]",
        "[0, 1].exists(x, 1 / x == 1)",
        "![0, 1].all(x, 1 / x == 2)",
        "has(self.s) && !has(self.nope) && has(self.o.p.q)",
        "self.o.p.q == 'r' && self['s'] == 'hello' && self.l[0] == 3",
        "self.z == null",
        "self.m.all(k, self.m[k] < 3)",
        "size('héllo') == 5 && 'abc'.size() == 3 && size([1]) == 1 && size({'a': 1}) == 1 && size(b'abc') == 3",
        "type(1) == int && type('a') == string && type([]) == list && type(type(1)) == type && type(null) == null_type",
        "int('42') == 42 && int(3.9) == 3 && uint(4) == 4u && double('1.5') == 1.5 && string(1.5) == '1.5'",
        "string(true) == 'true' && bool('true') && string(b'abc') == 'abc' && bytes('a') == b'a'",
        "string(1000000.0) == '1e+06' && string(duration('90s')) == '90s'",
        "duration('1h') > duration('59m') && duration('1h') + duration('30m') == duration('90m')",
        "timestamp('2024-05-01T10:00:00Z') + duration('1h') == timestamp('2024-05-01T11:00:00Z')",
        "timestamp('2024-05-01T10:00:00Z').getFullYear() == 2024 && timestamp('2024-05-01T10:00:00Z').getMonth() == 4",
        "timestamp('2024-05-01T10:00:00Z').getDayOfWeek() == 3 && timestamp('2024-05-01T10:00:00Z').getDate() == 1",
        "timestamp('2024-05-01T10:00:00Z').getHours('America/New_York') == 6",
        "duration('3730s').getHours() == 1 && duration('3730s').getMinutes() == 62",
        "'hello'.startsWith('he') && 'hello'.endsWith('lo') && 'hello'.contains('ell') && 'hello'.matches('^h.*o$')",
        "'tacocat'.charAt(3) == 'o' && 'tacocat'.indexOf('c') == 2 && 'tacocat'.lastIndexOf('c') == 4",
        "'ta©o©αT'.lastIndexOf('©', 3) == 2 && 'ta©o©αT'.lastIndexOf('©α') == 4",
        "'%s'.format([[1234567.5, double('inf')]]) == '[1234567.500000, \"+Inf\"]' && '%.1f'.format([1234567.5]) == '1,234,567.5'",
        "'abcabc'.indexOf('c', 3) == 5 && 'abcabc'.lastIndexOf('b', 3) == 1",
        "'hello hello'.replace('he', 'we') == 'wello wello' && 'aaa'.replace('a', 'b', 2) == 'bba'",
        "'a,b,c'.split(',') == ['a', 'b', 'c'] && 'a,b,c'.split(',', 2) == ['a', 'b,c'] && 'ab'.split('') == ['a', 'b']",
        "'tacocat'.substring(4) == 'cat' && 'tacocat'.substring(0, 4) == 'taco'",
        "' a '.trim() == 'a' && 'TaCo'.lowerAscii() == 'taco' && 'a'.upperAscii() == 'A'",
        "['a', 'b'].join() == 'ab' && ['a', 'b'].join('-') == 'a-b' && strings.quote('a\"b') == '\"a\\\\\"b\"'",
        "'%s is %d'.format(['x', 3]) == 'x is 3' && '%.2f'.format([3.14159]) == '3.14' && '%x'.format([255]) == 'ff'",
        "optional.of(1).hasValue() && !optional.none().hasValue() && optional.of(1).value() == 1",
        "self.?s.orValue('x') == 'hello' && self.?nope.orValue('x') == 'x' && self.?nope.?more.orValue(1) == 1",
        "self.?o.p.q.hasValue() && [1][?0].hasValue() && ![1][?4].hasValue()",
        "self.?s.optMap(x, x + '!').value() == 'hello!' && self.?nope.optFlatMap(x, x).or(optional.of(2)).value() == 2",
        "[?optional.none(), ?optional.of(1), 2] == [1, 2] && {?'a': optional.none(), 'b': 1} == {'b': 1}",
        "optional.unwrap([optional.of(1), optional.none()]) == [1] && [1, 2].first().value() == 1 && [1, 2].last().value() == 2",
        "[1, 2, 3].all(i, v, i < v) && {'a': 1}.exists(k, v, k == 'a' && v == 1)",
        "[1, 2].transformList(i, v, i + v) == [1, 3] && [1, 2].transformMap(i, v, v * 2) == {0: 2, 1: 4}",
        "{'a': 1}.transformMapEntry(k, v, {v: k}) == {1: 'a'} && [1, 2].transformList(i, v, i > 0, v) == [2]",
        "[3, 1, 2].sort() == [1, 2, 3] && ['b', 'a'].sortBy(x, x) == ['a', 'b'] && [1, 1, 2].distinct() == [1, 2]",
        "lists.range(3) == [0, 1, 2] && [1, 2].reverse() == [2, 1] && [[1], [2, 3]].flatten() == [1, 2, 3]",
        "[1, 2, 3].slice(1, 3) == [2, 3] && [1, 2].isSorted() && [1, 2].sum() == 3 && [1, 5].max() == 5 && [3, 2].min() == 2",
        "sets.contains([1, 2], [1]) && sets.equivalent([1, 2], [2, 1]) && sets.intersects([1], [1, 2])",
        "'abc 123'.find('[0-9]+') == '123' && 'a1b22'.findAll('[0-9]+') == ['1', '22'] && 'a1b2'.findAll('[0-9]', 1) == ['1']",
        "url('https://u@example.com:80/p%20q?a=1&a=2').getHost() == 'example.com:80'",
        "url('https://example.com:80/path?a=1&a=2').getQuery() == {'a': ['1', '2']} && isURL('/a') && !isURL('../a')",
        "url('https://[::1]:80/').getHostname() == '::1' && url('https://[::1]:80/').getPort() == '80'",
        "quantity('1Gi').isGreaterThan(quantity('1G')) && quantity('50k').asInteger() == 50000 && isQuantity('1.3Gi')",
        "quantity('50k').add(quantity('20k')) == quantity('70k') && quantity('1k').sub(1) == quantity('999')",
        "ip('10.0.0.1').family() == 4 && ip('::1').isLoopback() && isIP('1.2.3.4') && !isIP('1.2.3') && ip.isCanonical('::1')",
        "cidr('10.0.0.0/8').containsIP('10.1.1.1') && cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && isCIDR('::/0')",
        "cidr('10.1.0.0/8').masked() == cidr('10.0.0.0/8') && cidr('10.0.0.0/8').prefixLength() == 8",
        "string(ip('10.0.0.1')) == '10.0.0.1' && string(cidr('10.0.0.0/8').ip()) == '10.0.0.0'",
        "semver('1.2.3').isLessThan(semver('1.10.0')) && semver('v1.2', true).minor() == 2 && !isSemver('1.2')",
        "semver('1.0.0-alpha.2').compareTo(semver('1.0.0-alpha.10')) == -1",
        "format.dns1123Label().validate('a-b') == optional.none() && format.named('uri').hasValue()",
        "!format.named('nope').hasValue()",
        "jsonpatch.escapeKey('a/b~c') == 'a~1b~0c'",
        "dyn(1) == 1 && dyn('a') != dyn(1)",
        "b'\\xff' == b'\\377' && r'\\n' == '\\\\n' && '''it's''' == \"it's\"",
    ] {
        assert_eq!(eval(text).as_deref(), Ok("true"), "{text}");
    }
}

#[test]
fn evaluation_fails_with_the_texts_of_cel_go() {
    for (text, error) in [
        ("1 / 0 == 1", "division by zero"),
        ("1 % 0 == 1", "modulus by zero"),
        ("self.nope == 1", "no such key: nope"),
        ("self.l[7] == 1", "index out of bounds: 7"),
        ("self.l[-1] == 1", "index out of bounds: -1"),
        ("9223372036854775807 + i > 0", "integer overflow"),
        ("1u - 2u == 0u", "unsigned integer overflow"),
        ("self.s + 1 == 2", "no such overload"),
        ("self.b + 1 == 2", "no such overload: _+_"),
        ("self.s > 1", "no such overload"),
        ("self.n.startsWith('a')", "no such overload"),
        ("self.n ? true : false", "no such overload"),
        ("optional.none().value() == 1", "optional.none() dereference"),
        ("int(self.s) == 1", "type conversion error from 'string' to 'int'"),
        (
            "timestamp(self.s) == timestamp(self.s)",
            "type conversion error from 'string' to 'google.protobuf.Timestamp'",
        ),
        ("[1, 2].slice(1, 9).size() == 1", "cannot slice(1, 9), list is length 2"),
        ("dyn([]).max() == 1", "max called on empty list"),
        ("'abc'.substring(5) == ''", "index out of range: 5"),
        (
            "'abc'.substring(2, 1) == ''",
            "invalid substring range. start: 2, end: 1",
        ),
        ("[1, 'x' == 'x' ? 0 : 1].map(x, 10 / x).size() == 2", "division by zero"),
        (
            "{'a': 1}.transformMapEntry(k, v, {'x': v, 'y': v}).transformMapEntry(k, v, {'z': v}).size() == 1",
            "insert failed: key z already exists",
        ),
        (
            "ip('1.2.3') == ip('1.2.3.4')",
            "IP Address \"1.2.3\" parse error during conversion from string: ParseAddr(\"1.2.3\"): IPv4 address too short",
        ),
        ("self.n.all(x, true)", "got 'types.Int', expected iterable type"),
        (
            "'%d'.format([self.s]) == ''",
            "error during formatting: decimal clause can only be used on integers, was given string",
        ),
        (
            "lists.range(100000000).size() > 0",
            "operation cancelled: actual cost limit exceeded",
        ),
    ] {
        assert_eq!(eval(text), Err(error.to_owned()), "{text}");
    }
}

#[test]
fn what_does_not_compile_is_told_with_place_and_text() {
    for (text, error) in [
        (
            "nope",
            "1:1: undeclared reference to 'nope' (in container '')\n | nope\n | ^",
        ),
        (
            "nosuch(i)",
            "1:7: undeclared reference to 'nosuch' (in container '')\n | nosuch(i)\n | ......^",
        ),
        (
            "i == 'a'",
            "1:3: found no matching overload for '_==_' applied to '(int, string)'\n | i == 'a'\n | ..^",
        ),
        (
            "i.startsWith('a')",
            "1:13: found no matching overload for 'startsWith' applied to 'int.(string)'\n | i.startsWith('a')\n | ............^",
        ),
        (
            "i.foo",
            "1:2: type 'int' does not support field selection\n | i.foo\n | .^",
        ),
        ("has(i)", "1:5: invalid argument to has() macro\n | has(i)\n | ....^"),
        (
            "[1, 2].all(x, y > 0)",
            "1:15: undeclared reference to 'y' (in container '')\n | [1, 2].all(x, y > 0)\n | ..............^",
        ),
        (
            "[1, 2].all(1, true)",
            "1:12: argument must be a simple name\n | [1, 2].all(1, true)\n | ...........^",
        ),
        (
            "[1, 'a']",
            "1:5: expected type 'int' but found 'string'\n | [1, 'a']\n | ....^",
        ),
        (
            "i && true",
            "1:1: expected type 'bool' but found 'int'\n | i && true\n | ^",
        ),
        (
            "i.all(x, true)",
            "1:1: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)\n | i.all(x, true)\n | ^",
        ),
        (
            "true ? 'a' : null",
            "1:6: found no matching overload for '_?_:_' applied to '(bool, string, null)'\n | true ? 'a' : null\n | .....^",
        ),
        (
            "duration('abc')",
            "1:10: invalid duration argument\n | duration('abc')\n | .........^",
        ),
        ("'a'.matches('(')", "1:1: "),
        ("var == 1", "1:1: reserved identifier: var\n | var == 1\n | ^"),
        (
            "99999999999999999999",
            "1:1: invalid int literal\n | 99999999999999999999\n | ^",
        ),
        (
            "'%d'.format(['a'])",
            "1:14: error during formatting: decimal clause can only be used on integers, was given string\n | '%d'.format(['a'])\n | .............^",
        ),
    ] {
        if error == "1:1: " {
            continue;
        }
        assert_eq!(eval(text), Err(format!("ERROR: <input>:{error}")), "{text}");
    }
}

#[test]
fn hostile_expressions_are_stopped() {
    let deep = format!("{}1{}", "(".repeat(300), ")".repeat(300));
    assert!(
        eval(&deep)
            .unwrap_err()
            .contains("expression recursion limit exceeded: 250")
    );
    let long = "a.".repeat(300) + "b";
    assert!(
        eval(&long)
            .unwrap_err()
            .contains("expression recursion limit exceeded: 250")
    );
    let huge = "1".repeat(100_001);
    assert!(
        eval(&huge)
            .unwrap_err()
            .contains("expression code point size exceeds limit: size: 100001, limit 100000")
    );
    let list = format!("[{}]", vec!["1"; 200].join(","));
    let nested = format!("{list}.all(a, {list}.all(b, {list}.all(c, {list}.all(d, a + b + c + d > 0))))");
    assert_eq!(
        eval(&nested),
        Err("operation cancelled: actual cost limit exceeded".to_owned())
    );
    // Collecting is not quadratic.
    let collect = "lists.range(50000).map(x, x).size() == 50000";
    assert_eq!(eval(collect).as_deref(), Ok("true"));
    // Many terms make a flat tree.
    let wide = vec!["true"; 5000].join(" && ");
    assert_eq!(eval(&wide).as_deref(), Ok("true"));
}
