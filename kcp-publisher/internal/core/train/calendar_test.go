package train

import (
	"testing"
	"time"

	fleet "github.com/kyma-pull/kyma-pull/apis/fleet/v1alpha1"
)

func TestCalendarFollowsItsTimeZone(t *testing.T) {
	berlin := &fleet.PromotionCalendar{
		TimeZone: "Europe/Berlin", NotOn: []fleet.Weekday{"Fri", "Sat", "Sun"},
		Freezes: []fleet.Freeze{
			{Name: "new year", From: "2026-12-21", Until: "2027-01-07T09:00"},
			{Name: "change to summer time", From: "2027-03-26T12:00", Until: "2027-03-29T06:00"},
		},
	}
	c, err := newCalendar(berlin)
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]string{
		"2026-11-26T22:59:59Z": "2026-11-26T22:59:59Z", // Thursday, 23:59:59 in Berlin
		"2026-11-26T23:00:00Z": "2026-11-29T23:00:00Z", // Friday begins in Berlin
		"2026-11-29T22:59:59Z": "2026-11-29T23:00:00Z",
		"2026-12-20T23:00:00Z": "2027-01-07T08:00:00Z", // the freeze begins at midnight in Berlin
		"2027-03-28T12:00:00Z": "2027-03-29T04:00:00Z", // 06:00 in summer time
	} {
		now, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.nextOpen(now).UTC().Format(time.RFC3339); got != want {
			t.Errorf("next open time after %s: got %s, want %s", at, got, want)
		}
		if open := c.closedReason(now) == ""; open != (at == want) {
			t.Errorf("calendar at %s: got open %t, want %t", at, open, at == want)
		}
	}
}

func TestCalendarWithoutOpenTimeReturnsZero(t *testing.T) {
	c, err := newCalendar(&fleet.PromotionCalendar{
		Freezes: []fleet.Freeze{{Name: "odd", From: "2026-01-01", Until: "2099-01-01"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.nextOpen(monday); got.Year() != 2099 {
		t.Errorf("got next open time %s, want zero", got)
	}
	all := fleet.PromotionCalendar{NotOn: []fleet.Weekday{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}}
	if _, err := newCalendar(&all); err == nil {
		t.Error("a calendar that excludes every day is accepted")
	}
}

// In these time zones, clocks skip midnight when daylight saving time begins. Apia skipped a whole day.
func TestCalendarDayBeginsAfterSkippedMidnight(t *testing.T) {
	for zone, c := range map[string]struct {
		notOn       fleet.Weekday
		until, want string
	}{
		"America/Santiago": {"Sat", "2026-09-06", "2026-09-06T01:00:00-03:00"},
		"America/Havana":   {"Sat", "2026-03-08", "2026-03-08T01:00:00-04:00"},
		"Africa/Cairo":     {"Thu", "2026-04-24", "2026-04-24T01:00:00+03:00"},
		"Pacific/Apia":     {"Thu", "2011-12-30", "2011-12-31T00:00:00+14:00"},
	} {
		t.Run(zone, func(t *testing.T) {
			k, err := newCalendar(&fleet.PromotionCalendar{
				TimeZone: zone, NotOn: []fleet.Weekday{c.notOn},
				Freezes: []fleet.Freeze{{Name: "short", From: "2011-12-01", Until: c.until}},
			})
			if err != nil {
				t.Fatal(err)
			}
			until := k.freezes[0].until
			if got := until.In(k.zone).Format(time.RFC3339); got != c.want {
				t.Errorf("got end %s of the freeze, want %s", got, c.want)
			}
			k.freezes = nil
			if got := k.nextOpen(until.Add(-12 * time.Hour)).In(k.zone).Format(time.RFC3339); got != c.want {
				t.Errorf("got next open time %s, want %s", got, c.want)
			}
		})
	}
}

// Clocks show this time twice when daylight saving time ends. A freeze includes both.
func TestFreezeIncludesBothOccurrencesOfARepeatedTime(t *testing.T) {
	for zone, c := range map[string]struct{ local, from, until string }{
		"Europe/Berlin":       {"2026-10-25T02:30", "2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00"},
		"America/New_York":    {"2026-11-01T01:30", "2026-11-01T01:30:00-04:00", "2026-11-01T01:30:00-05:00"},
		"Australia/Lord_Howe": {"2026-04-05T01:45", "2026-04-05T01:45:00+11:00", "2026-04-05T01:45:00+10:30"},
		"UTC":                 {"2026-10-25T02:30", "2026-10-25T02:30:00Z", "2026-10-25T02:30:00Z"},
	} {
		k, err := newCalendar(&fleet.PromotionCalendar{TimeZone: zone, Freezes: []fleet.Freeze{
			{Name: "ends", From: "2026-01-01", Until: c.local}, {Name: "begins", From: c.local, Until: "2027-01-01"},
		}})
		if err != nil {
			t.Fatal(err)
		}
		from, until := k.freezes[1].from.Format(time.RFC3339), k.freezes[0].until.Format(time.RFC3339)
		if from != c.from || until != c.until {
			t.Errorf("%s: got from %s and until %s, want %s and %s", zone, from, until, c.from, c.until)
		}
	}
}
