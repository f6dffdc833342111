// What robfig/cron v3.0.1, the parser of Kubernetes' CronJobs, makes of some thousand schedules.
//
// Prints JSON lines. The same Go release prints the same lines; another one may know newer rules of
// time zones. `cargo xtask golden` runs it.
//
//	{"zones":[...]}                            every name of a time zone
//	{"zone":"Europe/Berlin","tzif":"545a..."}  the rules that were used, from the file of the zone
//	{"spec":"60 * * * *","error":true}         refused
//	{"spec":"0 9 * * 1","zone":"Europe/Berlin","runs":[[from,next,next,next,next],...]}
//
// Instants are seconds since 1970. No zone means UTC. A run ends with 0 where robfig finds no
// further time, and with -1 where it never comes back.
package main

import (
	"archive/zip"
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"strings"
	"time"
	_ "time/tzdata"

	"github.com/robfig/cron/v3"
)

const (
	none  = 0
	stuck = -1
	// 2026-01-01T00:00:00Z, a Thursday.
	base = 1767225600
)

type row struct {
	Spec  string    `json:"spec"`
	Zone  string    `json:"zone,omitempty"`
	Error bool      `json:"error,omitempty"`
	Runs  [][]int64 `json:"runs,omitempty"`
}

type rules struct {
	Zone string `json:"zone"`
	TZif string `json:"tzif"`
}

var (
	random = rand.New(rand.NewSource(20260101))
	out    = bufio.NewWriter(os.Stdout)
)

func main() {
	if err := useZonesOfGo(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	for _, spec := range written {
		ask(spec, "", base)
	}
	for _, spec := range mutated(600) {
		ask(spec, "", base)
	}
	for range 700 {
		ask(randomSpec(), "", base+random.Int63n(6*365*86400))
	}
	// At the end of what upstream searches, at the end of a century, and before 1970.
	for _, from := range []string{"2096-02-28", "2096-03-01", "2099-06-01", "2100-02-27", "1899-12-31", "1968-02-20"} {
		t, _ := time.Parse(time.DateOnly, from)
		for _, spec := range []string{"0 0 29 2 *", "0 0 1 1 *", "30 12 31 * 1", "0 0 * * 0", "0 0 28-29 2 ?/1"} {
			ask(spec, "", t.Unix()+random.Int63n(3600))
		}
	}
	for _, zone := range changing {
		loc, err := time.LoadLocation(zone)
		if err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
		for _, change := range changes(loc) {
			around(zone, loc, change)
		}
		for range 12 {
			ask(randomSpec(), zone, base+random.Int63n(365*86400))
		}
	}
	for _, zone := range steady {
		for range 20 {
			ask(randomSpec(), zone, base+random.Int63n(365*86400))
		}
	}
	if err := out.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// The system's zones would go before Go's own, and differ from machine to machine. Prints the names
// of all and the rules of ours.
func useZonesOfGo() error {
	path := filepath.Join(runtime.GOROOT(), "lib", "time", "zoneinfo.zip")
	archive, err := zip.OpenReader(path)
	if err != nil {
		return fmt.Errorf("this Go has no time zones of its own: %w", err)
	}
	defer archive.Close()
	var names []string
	for _, file := range archive.File {
		if !strings.HasSuffix(file.Name, "/") && file.Name != "Factory" {
			names = append(names, file.Name)
		}
	}
	sort.Strings(names)
	print(map[string][]string{"zones": names})
	for _, zone := range append(changing[:len(changing):len(changing)], steady...) {
		tzif, err := fs.ReadFile(archive, zone)
		if err != nil {
			return err
		}
		print(rules{Zone: zone, TZif: hex.EncodeToString(tzif)})
	}
	return os.Setenv("ZONEINFO", path)
}

// Asks robfig as Kubernetes does: the zone goes before the schedule.
func ask(spec, zone string, froms ...int64) {
	text := spec
	if zone != "" {
		text = "TZ=" + zone + " " + spec
	}
	schedule, err := parse(text)
	if err != nil {
		print(row{Spec: spec, Zone: zone, Error: true})
		return
	}
	asked := row{Spec: spec, Zone: zone}
	for _, from := range froms {
		run := []int64{from}
		for range 4 {
			next := after(schedule, run[len(run)-1])
			run = append(run, next)
			if next == none || next == stuck {
				break
			}
		}
		asked.Runs = append(asked.Runs, run)
	}
	print(asked)
}

// Some texts make the parser panic. Kubernetes turns that into an error.
func parse(text string) (schedule cron.Schedule, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v", panicked)
		}
	}()
	return cron.ParseStandard(text)
}

// A day that a zone leaves out can make robfig search for ever; nothing can stop it then but the
// end of this process.
func after(schedule cron.Schedule, from int64) int64 {
	found := make(chan time.Time, 1)
	go func() { found <- schedule.Next(time.Unix(from, 0).UTC()) }()
	select {
	case next := <-found:
		if next.IsZero() {
			return none
		}
		return next.Unix()
	case <-time.After(5 * time.Second):
		return stuck
	}
}

func print(line any) {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(line); err != nil {
		panic(err)
	}
}

// When the offset of a zone changes, from 1999 to 2026. Of many, some are chosen.
func changes(loc *time.Location) []time.Time {
	var all []time.Time
	offset := func(t time.Time) int {
		_, offset := t.In(loc).Zone()
		return offset
	}
	t, end := time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	for was := offset(t); t.Before(end); t = t.Add(time.Hour) {
		if offset(t) == was {
			continue
		}
		change := t.Add(-time.Hour)
		for offset(change) == was {
			change = change.Add(time.Minute)
		}
		was = offset(t)
		all = append(all, change.In(loc))
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	chosen := all[:min(len(all), 8)]
	if loc.String() == "Pacific/Apia" {
		// The day that was left out must be among them.
		leap := time.Date(2011, 12, 30, 10, 0, 0, 0, time.UTC)
		chosen = append(chosen[:min(len(chosen), 7)], leap.In(loc))
	}
	return chosen
}

// Schedules whose times lie next to a change of the clock, asked shortly before and after.
func around(zone string, loc *time.Location, change time.Time) {
	_, was := change.Add(-time.Second).Zone()
	_, is := change.Zone()
	// What the clock shows twice, or never, begins with the smaller one.
	low := change.In(time.FixedZone("", min(was, is)))
	minutes := max(is-was, was-is) / 60
	for range 9 {
		t := low.Add(time.Duration(random.Intn(minutes)) * time.Minute)
		if random.Intn(3) == 0 {
			t = t.Add(time.Duration(random.Intn(240)-120) * time.Minute)
		}
		minute, hour := fmt.Sprint(t.Minute()), fmt.Sprint(t.Hour())
		specs := []string{
			minute + " " + hour + " * * *",
			minute + " " + hour + " * * " + strings.ToUpper(t.Weekday().String()[:3]),
			fmt.Sprintf("%s %s %d %d ?", minute, hour, t.Day(), t.Month()),
			fmt.Sprintf("%s %s %d * %d", minute, hour, t.Day(), random.Intn(7)),
			minute + " * * * *",
			"*/" + fmt.Sprint(1+random.Intn(30)) + " * * * *",
			minute + "/7 " + hour + "-" + fmt.Sprint(min(23, t.Hour()+1)) + " * * *",
			"0 0 * * *",
			fmt.Sprintf("0 0 %d-%d * *", max(1, t.Day()-1), t.Day()),
			fmt.Sprintf("30 */%d %d * *", 2+random.Intn(5), t.Day()),
			randomSpec(),
		}
		spec := specs[random.Intn(len(specs))]
		before := change.Unix() - random.Int63n(int64(1)<<(6+random.Intn(12)))
		near := change.Unix() + random.Int63n(4*3600) - 2*3600
		ask(spec, zone, before, near)
	}
}
