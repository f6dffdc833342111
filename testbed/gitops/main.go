// Command gitops says what Flux, Helm and Argo CD make of objects. It reads a JSON array of questions, and writes one of
// answers.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"time"

	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	luajson "layeh.com/gopher-json"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

type question struct {
	Object json.RawMessage
	// Script is what Argo CD runs on the object. If it is empty, kstatus is asked.
	Script string
}

func main() {
	log.SetFlags(0)
	var questions []question
	if err := json.NewDecoder(os.Stdin).Decode(&questions); err != nil {
		log.Fatal(err)
	}
	answers := make([]any, 0, len(questions))
	for _, q := range questions {
		answer, err := q.answer()
		if err != nil {
			answer = map[string]string{"error": err.Error()}
		}
		answers = append(answers, answer)
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		log.Fatal(err)
	}
}

func (q question) answer() (any, error) {
	if q.Script == "" {
		var object unstructured.Unstructured
		if err := object.UnmarshalJSON(q.Object); err != nil {
			return nil, err
		}
		return status.Compute(&object)
	}
	return q.run()
}

// run does as Argo CD: it has the base library, tables, and of os the time, but no strings, and a second.
func (q question) run() (any, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for _, library := range []struct {
		name string
		open lua.LGFunction
	}{
		{lua.LoadLibName, lua.OpenPackage},
		{lua.BaseLibName, lua.OpenBase},
		{lua.TabLibName, lua.OpenTable},
		{lua.OsLibName, lua.OpenOs},
	} {
		call := lua.P{Fn: state.NewFunction(library.open), Protect: true}
		if err := state.CallByParam(call, lua.LString(library.name)); err != nil {
			return nil, err
		}
	}
	system := state.GetGlobal(lua.OsLibName).(*lua.LTable)
	var unsafe []lua.LValue
	system.ForEach(func(name, _ lua.LValue) {
		if name.String() != "time" && name.String() != "date" {
			unsafe = append(unsafe, name)
		}
	})
	for _, name := range unsafe {
		system.RawSet(name, lua.LNil)
	}
	state.PreloadModule(lua.OsLibName, func(state *lua.LState) int {
		state.Push(system)
		return 1
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	state.SetContext(ctx)
	object, err := luajson.Decode(state, q.Object)
	if err != nil {
		return nil, err
	}
	state.SetGlobal("obj", object)
	if err := state.DoString(q.Script); err != nil {
		return nil, err
	}
	table, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		return nil, fmt.Errorf("the script returns no table but %s", state.Get(-1).Type())
	}
	text, err := luajson.Encode(table)
	return json.RawMessage(text), err
}
