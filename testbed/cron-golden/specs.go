package main

import (
	"fmt"
	"strings"
)

// Zones with every kind of change: by an hour, half an hour, two hours, a day; at midnight, before
// and after; in winter, in Ramadan; that were begun, changed and given up.
var changing = []string{
	"Africa/Cairo", "Africa/Casablanca", "Africa/Khartoum", "America/Asuncion", "America/Caracas",
	"America/Havana", "America/New_York", "America/Nuuk", "America/Santiago", "America/Sao_Paulo",
	"America/St_Johns", "America/Scoresbysund", "Antarctica/Casey", "Antarctica/Troll", "Asia/Amman",
	"Asia/Beirut", "Asia/Damascus", "Asia/Gaza", "Asia/Kathmandu", "Asia/Pyongyang", "Asia/Tehran",
	"Atlantic/Azores", "Australia/Lord_Howe", "Australia/Sydney", "Europe/Berlin", "Europe/Dublin",
	"Europe/Istanbul", "Europe/London", "Europe/Moscow", "Pacific/Chatham", "Pacific/Easter",
	"Pacific/Norfolk", "Pacific/Tongatapu", "Pacific/Apia",
}

// And zones without.
var steady = []string{"Asia/Tokyo", "Asia/Kolkata", "America/Phoenix", "Etc/GMT+12"}

// What people write, and what only the parser's code explains.
var written = []string{
	"* * * * *", "*/5 * * * *", "0/15 * * * *", "5/15 * * * *", "*/35 * * * *", "59/2 * * * *",
	"*/100 * * * *", "1-5/2 * * * *", "? ? ? ? ?", "*-7 * * * *", "*-7/2 * * * *", "*-x-y/2 * * * *",
	"?-- * * * *", "1,,2 * * * *", ",1 * * * *", "1, * * * *", ", * * * *", "* , * * *", "* * , * *",
	"* * * , *", "* * * * ,", "* * , * 1", "* * 1 * ,", "* * , * ,", "+5 * * * *", "05 07 * * *",
	"-5 * * * *", "+-5 * * * *", "1-+5 * * * *", "1 +2 +3-+4 +5/+6 +0", "00000000000000000001 * * * *",
	"0 0 * * 0", "0 0 * * SUN", "0 0 * * sun-tue", "0 0 * * Mon/2", "0 0 * * 7", "0 0 * * 5-7",
	"0 0 * * 0-7", "0 0 * * 1/7", "0 0 * * FRI-MON", "0 0 * * FRİ", "0 0 * * ﬁ", "0 0 * * mo",
	"0 0 13 * 5", "0 0 */10 * 0", "0 0 */2 * 0", "0 0 ?/2 * 1", "0 0 1,15 * ?/1", "0 0 */1 * MON",
	"0 0 1-31 * MON", "0 0 1-7 * MON", "0 0 1,* * MON", "0 0 *,*/2 * MON", "0 0 1 JAN-dec/3 *",
	"0 0 * 1-mar 1", "0 0 1 January *", "0 0 1 JANU *", "MON * * * *", "* jan * * *", "* * mon * *",
	"* * * mon *", "* * * * jan", "* * * */feb *", "0 0 29 2 *", "0 0 29 2 0", "0 0 30 2 *",
	"59 23 31 2 *", "0 0 31 4 ?", "0 0 31 4,6,9,11 *", "0 0 31 * *", "0 0 31 2 1", "0 0 30-31 2 ?",
	"60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 0 *", "* * * 13 *", "0-60 * * * *",
	"60/5 * * * *", "59/60 * * * *", "* 23/24 * * *", "* * 31/31 * *", "* * 0/5 * *", "* * * 12/9 *",
	"*/0 * * * *", "*/-1 * * * *", "*/-0 * * * *", "*/ * * * *", "/5 * * * *", "*/*  * * * *",
	"*/9223372036854775807 * * * *", "*/9223372036854775808 * * * *", "1/9223372036854775807 * * * *",
	"99999999999999999999 * * * *", "18446744073709551616 * * * *", "5-1 * * * *", "5-5 * * * *",
	"1--5 * * * *", "1-5-7 * * * *", "-1-5 * * * *", "1- * * * *", "- * * * *", "1/2/3 * * * *",
	"*/2/3 * * * *", "** * * * *", "*5 * * * *", "5* * * * *", "*,* * * * *", "*? * * * *",
	"1.5 * * * *", "1_0 * * * *", "0x1 * * * *", "１ * * * *", "1;2 * * * *", "1:2 * * * *",
	"* * * *", "*", "* * * * * *", "0 0 0 1 1 ? 2030", "0 0 L * *", "0 0 15W * *", "0 0 * * 1#2",
	"0 0 * * 5L", "H * * * *", "H/5 * * * *", "", " ", "\t", " 0 0 * * * ", "0\t0\t*\t*\t*",
	"0\u00a00\u2003*\u3000*\u0085*", "0\u200b0 * * *", "0 0 * * *\n", "\ufeff0 0 * * *", "0\v0\f*\r*\n*",
	"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly", " @daily",
	"@daily ", "@Daily", "@DAILY", "@reboot", "@", "@every", "@every ", "@every 90s", "@every 1.5h",
	"@every 1500ms", "@every -5m", "@every +5m", "@every 1d", "@every  5m", "@every 5m ", "@every 5",
	"@every 0", "@every 0s", "@every -0", "@every 00", "@every 1h30m", "@every 1h-30m", "@every .5m",
	"@every 5.m", "@every .m", "@every 1..5m", "@every 1µs", "@every 1μs", "@every 1us", "@every 1S",
	"@every 1h1h", "@every 1m1h", "@every 2562047h", "@every 2562048h", "@every 9223372036s",
	"@every 9223372036.854775807s", "@every 9223372036.854775808s", "@every 9223372037s",
	"@every 0.9999999999999999999999s", "@every 1.9999999999999999999999s", "@every 2.0000000001s",
	"@every 9223372036854775808ns", "@every -9223372036854775808ns", "@every 99999999999999999999s",
	"@every 1.9223372036854775808s", "@every 0.99999999999999999h", "@every 1 h", "@every h", "@every\t5m",
	"@Every 5m", "@every5m", "@every 1e3s", "@every ∞s", "@every 1m 30s", "@daily @daily", "@daily *",
	"TZ=UTC", "TZ=0", "CRON_TZ=UTC", "TZ=", "TZ= ", "TZ= * * * * *", "CRON_TZ= 0 0 * * *",
	"TZ=UTC * * * * *", "TZ=UTC  @daily  ", "TZ=UTC\t* * * * *", "TZ=UTC @every 5m", "TZ=UTC @every 5m ",
	"TZ=Local 0 0 * * *", "TZ=local 0 0 * * *", "TZ=LOCAL 0 0 * * *", "TZ=utc 0 0 * * *",
	"CRON_TZ=Asia/Tokyo  0 0 * * *", "TZ=Asia/Tokyo @every 1h", "TZ=Asia/Tokyo @weekly",
	"TZ=asia/tokyo 0 0 * * *", "TZ=Asia/ 0 0 * * *", "TZ=Asia 0 0 * * *", "TZ=Asia/Tokyo/ 0 0 * * *",
	"TZ=../Asia/Tokyo 0 0 * * *", "TZ=Asia/../Asia/Tokyo 0 0 * * *", "TZ=/Asia/Tokyo 0 0 * * *",
	"TZ=\\Asia 0 0 * * *", "TZ=Nowhere 0 0 * * *", "TZ=Etc/Unknown 0 0 * * *", "TZ=EST5EDT 0 0 * * *",
	"TZ=Etc/GMT+5 0 0 * * *", "TZ=GMT-5 0 0 * * *", "TZ=UTC+5 0 0 * * *", "TZ=EST 0 0 * * *",
	"TZ=CEST 0 0 * * *", "TZ=Asia/Tokyo CRON_TZ=UTC 0 0 * * *", "CRON_TZ=TZ=UTC 0 0 * * *",
	"tz=UTC 0 0 * * *", " TZ=UTC 0 0 * * *", "cron_tz=UTC 0 0 * * *", "TZ=UTC 0 0 * *", "TZ=UTC  ",
	"0 9 * * TZ=UTC", "TZ 0 0 * * *", "TZ=America/Argentina/Buenos_Aires 0 0 * * *",
	"TZ=America/Argentina 0 0 * * *", "TZ=Zulu 0 0 * * *", "TZ=W-SU 0 0 * * *", "TZ=GB-Eire 0 0 * * *",
	"30 6-16/4 * * 1-5", "30 10,11,12 * * 1-5", "0 22 1-7 * 1", "15 14 1 * *", "0 0 1 1 1",
	"23 0-20/2 * * *", "5 4 * * sun", "0 0,12 1 */2 *", "0 4 8-14 * *", "1-59/2 * * * *",
}

var (
	names  = []string{"sun", "Mon", "TUE", "wEd", "thu", "fri", "sat"}
	months = []string{"jan", "Feb", "MAR", "apr", "may", "Jun", "jul", "aug", "sep", "OCT", "nov", "dec"}
)

func randomSpec() string {
	fields := []string{
		field(0, 59, nil, 2), field(0, 23, nil, 3), field(1, 31, nil, 5),
		field(1, 12, months, 6), field(0, 6, names, 5),
	}
	return strings.Join(fields, " ")
}

// A list of items; "*" with the given share of ten.
func field(low, high int, names []string, stars int) string {
	if random.Intn(10) < stars {
		return []string{"*", "*", "*", "?", "*/1"}[random.Intn(5)]
	}
	var items []string
	for range 1 + random.Intn(3)*random.Intn(2) {
		items = append(items, item(low, high, names))
	}
	return strings.Join(items, ",")
}

func item(low, high int, names []string) string {
	write := func(n int) string {
		if names != nil && random.Intn(2) == 0 {
			return names[n-low]
		}
		return fmt.Sprint(n)
	}
	start := low + random.Intn(high-low+1)
	end := start + random.Intn(high-start+1)
	step := fmt.Sprint(1 + random.Intn(high/2+2))
	switch random.Intn(6) {
	case 0:
		return write(start) + "-" + write(end)
	case 1:
		return write(start) + "-" + write(end) + "/" + step
	case 2:
		return "*/" + step
	case 3:
		return write(start) + "/" + step
	default:
		return write(start)
	}
}

// Schedules with a few characters changed: most are refused, some are not.
func mutated(count int) []string {
	alphabet := []rune("0123456789*?/-,+ @#LWTZ=abcdefghijmnoprstuvyDMS\t.:\u00a0")
	var specs []string
	for range count {
		text := []rune(written[random.Intn(len(written))])
		if random.Intn(2) == 0 {
			text = []rune(randomSpec())
		}
		for range 1 + random.Intn(2) {
			at := random.Intn(len(text) + 1)
			letter := alphabet[random.Intn(len(alphabet))]
			switch {
			case at == len(text):
				text = append(text, letter)
			case random.Intn(3) == 0:
				text = append(text[:at:at], text[at+1:]...)
			case random.Intn(2) == 0:
				text = append(text[:at:at], append([]rune{letter}, text[at:]...)...)
			default:
				text[at] = letter
			}
		}
		specs = append(specs, string(text))
	}
	return specs
}
