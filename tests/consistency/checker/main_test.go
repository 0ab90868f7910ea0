package main

import (
	"os"
	"path/filepath"
	"testing"
)

// A history, one operation a line: kind, value (0: nothing), start, end (0: no answer).
type line struct {
	kind       string
	value      int64
	start, end int64
}

func history(lines ...line) []Operation {
	var made []Operation
	for _, each := range lines {
		operation := Operation{Kind: each.kind, Key: "k", StartUs: each.start, EndUs: each.end, IsKnown: each.end > 0}
		if each.value > 0 {
			operation.Value = &each.value
		}
		made = append(made, operation)
	}
	return byKey(made)["k"]
}

func TestHistories(t *testing.T) {
	for _, each := range []struct {
		name           string
		lines          []line
		isAcknowledged bool
		isAtomic       bool
	}{
		{"a write is seen", []line{{"write", 1, 0, 10}, {"read", 1, 11, 12}}, true, true},
		{"nothing before the first write", []line{{"read", 0, 0, 1}, {"write", 1, 2, 3}, {"read", 1, 4, 5}}, true, true},
		{"old after the acknowledgement", []line{{"write", 1, 0, 1}, {"write", 2, 2, 3}, {"read", 1, 4, 5}}, false, false},
		{"old while it is written", []line{{"write", 1, 0, 1}, {"write", 2, 2, 9}, {"read", 1, 4, 5}}, true, true},
		{"old begun in the microsecond of the acknowledgement", []line{{"write", 1, 0, 1}, {"write", 2, 2, 3}, {"read", 1, 3, 5}}, true, true},
		{"new, then old while it is written", []line{{"write", 1, 0, 1}, {"write", 2, 2, 9}, {"read", 2, 3, 4}, {"read", 1, 5, 6}}, true, false},
		{"new, then old after it", []line{{"write", 1, 0, 1}, {"write", 2, 2, 9}, {"read", 2, 3, 4}, {"read", 1, 10, 11}}, false, false},
		{"a value nobody wrote", []line{{"write", 1, 0, 1}, {"read", 2, 2, 3}}, false, false},
		{"a value from the future", []line{{"read", 1, 0, 1}, {"write", 1, 2, 3}}, false, false},
		{"gone after a deletion", []line{{"write", 1, 0, 1}, {"delete", 0, 2, 3}, {"read", 0, 4, 5}}, true, true},
		{"there after a deletion", []line{{"write", 1, 0, 1}, {"delete", 0, 2, 3}, {"read", 1, 4, 5}}, false, false},
		{"not there any more", []line{{"write", 1, 0, 1}, {"read", 0, 2, 3}}, false, false},
		{"unanswered, seen later", []line{{"write", 1, 0, 1}, {"write", 2, 2, 0}, {"read", 1, 3, 4}, {"read", 2, 9, 10}}, true, true},
		{"unanswered, never seen", []line{{"write", 1, 0, 1}, {"write", 2, 2, 0}, {"read", 1, 9, 10}}, true, true},
		{"two at once, both ends seen in one order", []line{{"write", 1, 0, 9}, {"write", 2, 1, 8}, {"read", 1, 10, 11}, {"read", 1, 12, 13}}, true, true},
		{"two at once, both seen afterwards", []line{{"write", 1, 0, 9}, {"write", 2, 1, 8}, {"read", 1, 10, 11}, {"read", 2, 12, 13}}, false, false},
		{"a deletion among two", []line{{"delete", 0, 0, 9}, {"write", 5, 1, 20}, {"delete", 0, 2, 30}, {"read", 5, 10, 11}}, true, true},
	} {
		t.Run(each.name, func(t *testing.T) {
			if got := isLegal("acknowledged", history(each.lines...)); got != each.isAcknowledged {
				t.Errorf("acknowledged: %v", got)
			}
			if got := isLegal("atomic", history(each.lines...)); got != each.isAtomic {
				t.Errorf("atomic: %v", got)
			}
		})
	}
}

func TestConditions(t *testing.T) {
	one, none := int64(1), int64(0)
	written := func(value int64, start, end int64, over *int64) Operation {
		return Operation{Kind: "write", Key: "k", Value: &value, StartUs: start, EndUs: end, IsKnown: end > 0, OnlyOver: over}
	}
	refused := func(start, end int64, over *int64) Operation {
		return Operation{Kind: "refused", Key: "k", StartUs: start, EndUs: end, IsKnown: true, OnlyOver: over}
	}
	read := func(value int64, start, end int64) Operation {
		return Operation{Kind: "read", Key: "k", Value: &value, StartUs: start, EndUs: end, IsKnown: true}
	}
	deleted := func(start, end int64) Operation {
		return Operation{Kind: "delete", Key: "k", StartUs: start, EndUs: end, IsKnown: true}
	}
	for _, each := range []struct {
		name    string
		history []Operation
		isLegal bool
	}{
		{"over what is there", []Operation{written(1, 0, 1, nil), written(2, 2, 3, &one)}, true},
		{"over what was replaced", []Operation{written(1, 0, 1, nil), written(2, 2, 3, nil), written(3, 4, 5, &one)}, false},
		{"two over the same", []Operation{written(1, 0, 1, nil), written(2, 2, 9, &one), written(3, 3, 8, &one)}, false},
		{"over nothing", []Operation{written(1, 0, 1, &none)}, true},
		{"over nothing where something is", []Operation{written(1, 0, 1, nil), written(2, 2, 3, &none)}, false},
		{"over nothing after a deletion", []Operation{written(1, 0, 1, nil), deleted(2, 3), written(2, 4, 5, &none)}, true},
		{"refused for another", []Operation{written(1, 0, 1, nil), written(2, 2, 3, nil), refused(4, 5, &one)}, true},
		{"refused without a reason", []Operation{written(1, 0, 1, nil), refused(2, 3, &one)}, false},
		{"refused while it is replaced", []Operation{written(1, 0, 1, nil), refused(2, 9, &one), written(2, 3, 8, nil)}, true},
		{"refused by an unanswered write that nobody saw", []Operation{written(1, 0, 1, nil), written(2, 2, 0, nil), refused(3, 4, &one)}, true},
		{"refused before an unanswered write", []Operation{written(1, 0, 1, nil), refused(2, 3, &one), written(2, 4, 0, nil)}, false},
		{"unanswered, and without effect", []Operation{written(1, 0, 1, nil), written(2, 2, 3, nil), written(3, 4, 0, &one), read(2, 9, 10)}, true},
		{"unanswered, seen although it could not be", []Operation{written(1, 0, 1, nil), written(2, 2, 3, nil), written(3, 4, 0, &one), read(3, 9, 10)}, false},
	} {
		t.Run(each.name, func(t *testing.T) {
			if got := isLegal("acknowledged", byKey(each.history)["k"]); got != each.isLegal {
				t.Errorf("legal: %v", got)
			}
		})
	}
}

func TestOfALongHistoryWhatShowsTheViolationIsLeft(t *testing.T) {
	var lines []line
	for number := int64(1); number <= 300; number++ {
		at := number * 10
		lines = append(lines, line{"write", number, at, at + 2}, line{"read", number, at + 3, at + 4})
	}
	lines = append(lines, line{"delete", 0, 5_000, 5_001}, line{"read", 0, 5_002, 5_003}, line{"read", 17, 5_004, 5_005})

	left := shorten("acknowledged", history(lines...))

	if len(left) != 3 || left[0].Kind != "write" || *left[0].Value != 17 || *left[2].Value != 17 {
		t.Errorf("left: %v", left)
	}
}

func TestReadsOfMemoryAndWithoutAnAnswerAreLeftOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	text := `{"kind": "write", "key": "a", "value": 1, "start_us": 0, "end_us": 1, "is_known": true}
{"kind": "read", "key": "a", "value": null, "start_us": 2, "end_us": 3, "is_known": true, "tier": "memory"}
{"kind": "read", "key": "a", "value": null, "start_us": 2, "end_us": 3, "is_known": false}
{"kind": "write", "key": "b", "value": 2, "start_us": 2, "end_us": 3, "is_known": false}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}

	operations, err := read(path)

	if err != nil || len(operations) != 4 || len(byKey(operations)["a"]) != 1 || len(byKey(operations)["b"]) != 0 {
		t.Errorf("%v, %v", byKey(operations), err)
	}
}

func TestALineThatIsNoOperationIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	for _, text := range []string{`{"kind": "swap"}`, `{"kind": "write"}`, `{`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := read(path); err == nil {
			t.Errorf("%s was read", text)
		}
	}
}
