// Command checker holds histories of reads and writes against a register, key by key, with porcupine.
//
//	checker [-model acknowledged|atomic] HISTORY.jsonl …
//
// It prints how many operations it has checked, or the shortest violating history that it finds, and exits with 1.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Operation is a line of a history; history.py documents the format.
type Operation struct {
	Client  string `json:"client"`
	Kind    string `json:"kind"`
	Key     string `json:"key"`
	Value   *int64 `json:"value"`
	StartUs int64  `json:"start_us"`
	EndUs   int64  `json:"end_us"`
	IsKnown bool   `json:"is_known"`
	Tier    string `json:"tier"`
	Path    string `json:"path"`
	// Of a conditional write: the value that it may be written over, 0 if that is none.
	OnlyOver *int64 `json:"only_over"`
}

// A reader's memory has a bound of its own, which bounds.py checks.
const memory = "memory"

// So has a head in memory, which decides what is read in slices.
const inSlices = "slices: "

func main() {
	model := flag.String("model", "acknowledged", "acknowledged: a read may see what was current since the last "+
		"acknowledged write; atomic: what is current at one instant")
	flag.Parse()
	if *model != "acknowledged" && *model != "atomic" || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	checked := 0
	for _, path := range flag.Args() {
		operations, err := read(path)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		histories := byKey(operations)
		for _, key := range sortedKeys(histories) {
			history := histories[key]
			checked += len(history)
			if isLegal(*model, history) {
				continue
			}
			shortest := shorten(*model, history)
			fmt.Printf("VIOLATION in %s, key %q: no order of these %d operations explains the reads\n",
				filepath.Base(path), key, len(shortest))
			show(os.Stdout, shortest)
			os.Exit(1)
		}
	}
	fmt.Printf("%d operations, no violation\n", checked)
}

func read(path string) ([]Operation, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var operations []Operation
	lines := bufio.NewScanner(file)
	for number := 1; lines.Scan(); number++ {
		var operation Operation
		if err := json.Unmarshal(lines.Bytes(), &operation); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, number, err)
		}
		switch {
		case !slices.Contains([]string{"read", "write", "delete", "refused"}, operation.Kind):
			return nil, fmt.Errorf("%s:%d: kind %q; accepted: read, write, delete, refused", path, number, operation.Kind)
		case operation.Kind == "refused" && operation.OnlyOver == nil:
			return nil, fmt.Errorf("%s:%d: refused without a condition", path, number)
		case operation.Kind == "write" && operation.Value == nil:
			return nil, fmt.Errorf("%s:%d: a write without a value", path, number)
		}
		operations = append(operations, operation)
	}
	return operations, lines.Err()
}

// byKey leaves out what says nothing: reads without an answer, reads of memory, and unanswered writes that nobody saw,
// neither by a read nor by a condition that did not hold because of it.
func byKey(operations []Operation) map[string][]Operation {
	seen, lastRefusedUs := map[int64]bool{}, map[string]int64{}
	for _, each := range operations {
		switch {
		case each.Kind == "read" && each.Value != nil:
			seen[*each.Value] = true
		case each.Kind == "refused":
			lastRefusedUs[each.Key] = max(lastRefusedUs[each.Key], each.EndUs)
		}
		if each.OnlyOver != nil {
			seen[*each.OnlyOver] = true
		}
	}
	histories := map[string][]Operation{}
	for _, each := range operations {
		isIdleRead := each.Kind == "read" && (!each.IsKnown || each.Tier == memory || strings.HasPrefix(each.Tier, inSlices))
		isUnseen := each.Kind == "write" && !each.IsKnown && !seen[*each.Value] && each.StartUs > lastRefusedUs[each.Key]
		if !isIdleRead && !isUnseen {
			histories[each.Key] = append(histories[each.Key], each)
		}
	}
	return histories
}

func sortedKeys(histories map[string][]Operation) []string {
	keys := make([]string, 0, len(histories))
	for key := range histories {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func show(out io.Writer, history []Operation) {
	if len(history) == 0 {
		return
	}
	begin := history[0].StartUs
	for _, each := range history {
		value, end := "nothing", fmt.Sprintf("%9.3f", float64(each.EndUs-begin)/1000)
		if each.Value != nil {
			value = fmt.Sprint(*each.Value)
		}
		if !each.IsKnown {
			end = "no answer"
		}
		if each.OnlyOver != nil {
			value += fmt.Sprintf(" over %d", *each.OnlyOver)
		}
		line := fmt.Sprintf("%9.3f to %s ms  %-10s %-7s %-8s %s",
			float64(each.StartUs-begin)/1000, end, each.Client, each.Kind, value, each.Tier)
		fmt.Fprintln(out, strings.TrimRight(line, " "))
	}
}
