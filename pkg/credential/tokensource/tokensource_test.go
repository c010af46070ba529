// Copyright Contributors to the Open Cluster Management project

package tokensource_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	clocktesting "k8s.io/utils/clock/testing"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/tokensource"
)

const (
	sentinel = "s3nt1nel-t0ken"
	server   = "https://api.example.com:6443"
	lifetime = time.Hour
)

// errService is what a token service says.
var errService = credential.MintFailed(errors.New("the token service does not answer"))

// service mints tokens that are numbered from 1. Its fields may be changed between calls.
type service struct {
	mints    atomic.Int32
	lifetime time.Duration
	err      error
	// hold, if set, is waited for.
	hold chan struct{}
}

func (s *service) mint(ctx context.Context) (tokensource.Token, error) {
	n := s.mints.Add(1)
	if s.hold != nil {
		select {
		case <-s.hold:
		case <-ctx.Done():
			return tokensource.Token{}, ctx.Err()
		}
	}
	if s.err != nil {
		return tokensource.Token{}, s.err
	}
	return tokensource.Token{Value: fmt.Sprintf("%s-%d", sentinel, n), Expiry: time.Now().Add(s.lifetime)}, nil
}

func newService() *service { return &service{lifetime: lifetime} }

func keyOf(uid, version string) tokensource.Key {
	return tokensource.Key{
		Resolver: "test", SecretUID: types.UID(uid), ResourceVersion: version, Endpoint: tokensource.EndpointOf(server, []byte("ca")),
	}
}

func newSource(s *service) *tokensource.Source {
	return tokensource.NewCache(tokensource.Options{}).Source(keyOf("uid", "1"), s.mint)
}

func mustToken(t *testing.T, s *tokensource.Source) string {
	t.Helper()
	token, err := s.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return token.Value
}

// expectMints fails unless the service was asked so often.
func expectMints(t *testing.T, s *service, want int) {
	t.Helper()
	if got := int(s.mints.Load()); got != want {
		t.Errorf("%d mints, want %d", got, want)
	}
}

func TestTokenIsRenewedEarly(t *testing.T) {
	cases := []struct {
		name     string
		lifetime time.Duration
		kept     time.Duration
		replaced time.Duration
	}{
		{"an hour", time.Hour, 45*time.Minute - 1, 48 * time.Minute},
		{"a quarter of one", 15 * time.Minute, 11 * time.Minute, 12 * time.Minute},
		{"seconds", 10 * time.Second, 7 * time.Second, 8 * time.Second},
		{"unknown", 0, tokensource.MaxAge*3/4 - 1, tokensource.MaxAge * 4 / 5},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := newService()
				source := tokensource.NewCache(tokensource.Options{}).Source(keyOf("uid", "1"), func(ctx context.Context) (tokensource.Token, error) {
					token, err := service.mint(ctx)
					token.Expiry = time.Time{}
					if c.lifetime > 0 {
						token.Expiry = time.Now().Add(c.lifetime)
					}
					return token, err
				})
				first := mustToken(t, source)
				time.Sleep(c.kept)
				if mustToken(t, source) != first {
					t.Error("replaced too early")
				}
				time.Sleep(c.replaced - c.kept)
				if mustToken(t, source) == first {
					t.Error("not replaced")
				}
				expectMints(t, service, 2)
			})
		})
	}
}

// Those that are minted together are not renewed together; each of them always at the same time.
func TestRenewalsAreSpread(t *testing.T) {
	start := time.Now()
	renewedAfter := func(value string) time.Duration {
		clock := clocktesting.NewFakePassiveClock(start)
		mints := 0
		source := tokensource.NewCache(tokensource.Options{Clock: clock}).Source(keyOf("uid", "1"), func(context.Context) (tokensource.Token, error) {
			mints++
			return tokensource.Token{Value: value, Expiry: start.Add(2 * lifetime)}, nil
		})
		for after := time.Duration(0); ; after += 10 * time.Second {
			clock.SetTime(start.Add(after))
			mustToken(t, source)
			if mints > 1 {
				return after
			}
		}
	}
	times := map[time.Duration]bool{}
	for i := range 20 {
		value := sentinel + strconv.Itoa(i)
		after := renewedAfter(value)
		if again := renewedAfter(value); again != after {
			t.Errorf("renewed after %s, and after %s", after, again)
		}
		times[after] = true
	}
	if len(times) < 10 {
		t.Errorf("20 tokens are renewed at %d times only", len(times))
	}
}

func TestValidTokenIsUsedWhileItCannotBeRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newService()
		source := newSource(service)
		first := mustToken(t, source)
		service.err = errService
		time.Sleep(lifetime * 9 / 10)
		for range 10 {
			if mustToken(t, source) != first {
				t.Error("another token")
			}
		}
		expectMints(t, service, 2)
		time.Sleep(tokensource.RenewalInterval)
		mustToken(t, source)
		expectMints(t, service, 3)
		time.Sleep(lifetime / 10)
		if _, err := source.Token(t.Context()); !errors.Is(err, errService) {
			t.Errorf("got %v of a token that has expired", err)
		}
		service.err = nil
		if mustToken(t, source) == first {
			t.Error("a token that has expired")
		}
	})
}

// TestTokenThatIsNotAllowedAnyMore: the policy may have changed, or the cluster moved, since it was minted.
func TestTokenThatIsNotAllowedAnyMore(t *testing.T) {
	for name, err := range map[string]error{"denied": credential.Denied(errService), "invalid": credential.Invalid(errService)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := newService()
				source := newSource(service)
				mustToken(t, source)
				service.err = err
				time.Sleep(lifetime * 9 / 10)
				for range 2 {
					if _, err := source.Token(t.Context()); !errors.Is(err, errService) {
						t.Errorf("got %v, want the error of the mint", err)
					}
				}
			})
		})
	}
}

func TestServiceThatHangsHoldsUpNoValidToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newService()
		source := newSource(service)
		first := mustToken(t, source)
		service.hold = make(chan struct{})
		time.Sleep(lifetime * 9 / 10)
		begin := time.Now()
		for range 3 {
			if mustToken(t, source) != first {
				t.Error("another token")
			}
		}
		if waited := time.Since(begin); waited > 5*time.Second {
			t.Errorf("waited for %s", waited)
		}
		expectMints(t, service, 2)
		close(service.hold)
		synctest.Wait()
		if mustToken(t, source) == first {
			t.Error("what the mint gave in the end is lost")
		}
		expectMints(t, service, 2)
	})
}

func TestParallelCallersShareOneMint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newService()
		service.hold = make(chan struct{})
		source := newSource(service)
		ctx, cancel := context.WithCancel(t.Context())
		gaveUp := make(chan error, 1)
		go func() {
			_, err := source.Token(ctx)
			gaveUp <- err
		}()
		synctest.Wait()
		var callers sync.WaitGroup
		for range 50 {
			callers.Go(func() { mustToken(t, source) })
		}
		synctest.Wait()
		cancel()
		if err := <-gaveUp; !errors.Is(err, context.Canceled) {
			t.Errorf("the caller that gave up got %v", err)
		}
		time.Sleep(tokensource.DefaultMintTimeout - 1)
		close(service.hold)
		callers.Wait()
		expectMints(t, service, 1)
	})
}

// TestMintEndsWithTheLastWhoWaits: a plugin that hangs is not left running for nobody.
func TestMintEndsWithTheLastWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newService()
		var ended []error
		source := tokensource.NewCache(tokensource.Options{}).Source(keyOf("uid", "1"), func(ctx context.Context) (tokensource.Token, error) {
			if len(ended) > 0 {
				return service.mint(ctx)
			}
			<-ctx.Done()
			ended = append(ended, ctx.Err())
			return tokensource.Token{}, ctx.Err()
		})
		var waiting sync.WaitGroup
		first, cancelFirst := context.WithCancel(t.Context())
		second, cancelSecond := context.WithCancel(t.Context())
		for _, ctx := range []context.Context{first, second} {
			waiting.Go(func() {
				if _, err := source.Token(ctx); !errors.Is(err, context.Canceled) {
					t.Errorf("got %v", err)
				}
			})
		}
		synctest.Wait()
		cancelFirst()
		synctest.Wait()
		if len(ended) > 0 {
			t.Fatal("the mint ended though somebody waits for it")
		}
		cancelSecond()
		waiting.Wait()
		synctest.Wait()
		if len(ended) != 1 || !errors.Is(ended[0], context.Canceled) {
			t.Fatalf("the mint goes on for nobody: %v", ended)
		}
		mustToken(t, source)
	})
}

func TestMintIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newService()
		service.hold = make(chan struct{})
		source := tokensource.NewCache(tokensource.Options{MintTimeout: 7 * time.Second}).Source(keyOf("uid", "1"), service.mint)
		begin := time.Now()
		_, err := source.Token(t.Context())
		if !credential.IsMintFailed(err) || err.Error() != "no token was issued in time; it is tried again" {
			t.Errorf("got %v", err)
		}
		if waited := time.Since(begin); waited != 7*time.Second {
			t.Errorf("waited for %s", waited)
		}
	})
}

type traceKey struct{}

func TestMintHasTheLoggerOfTheCallerAndNothingElse(t *testing.T) {
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	ctx := context.WithValue(klog.NewContext(t.Context(), logger), traceKey{}, "trace")
	source := tokensource.NewCache(tokensource.Options{}).Source(keyOf("uid", "1"), func(ctx context.Context) (tokensource.Token, error) {
		klog.FromContext(ctx).Info("From the mint")
		if ctx.Value(traceKey{}) != nil {
			t.Error("a value of the request")
		}
		return tokensource.Token{Value: sentinel}, nil
	})
	if _, err := source.Token(ctx); err != nil {
		t.Error(err)
	}
	if !strings.Contains(logOf(logger), "From the mint") {
		t.Error("another logger")
	}
}

// logOf is what was logged.
func logOf(logger klog.Logger) string {
	underlier, _ := logger.GetSink().(ktesting.Underlier)
	return underlier.GetBuffer().String()
}

func TestMintThatPanics(t *testing.T) {
	for name, ends := range map[string]func(){"panic": func() { panic(sentinel) }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
			ctx := klog.NewContext(t.Context(), logger)
			service, broken := newService(), true
			source := tokensource.NewCache(tokensource.Options{}).Source(keyOf("uid", "1"), func(ctx context.Context) (tokensource.Token, error) {
				if broken {
					ends()
				}
				return service.mint(ctx)
			})
			_, err := source.Token(ctx)
			if err == nil || credential.IsMintFailed(err) || strings.Contains(err.Error(), sentinel) {
				t.Errorf("got %v", err)
			}
			if strings.Contains(logOf(logger), sentinel) {
				t.Error("the value is in the log")
			}
			broken = false
			mustToken(t, source)
		})
	}
}

func TestUselessTokens(t *testing.T) {
	for name, token := range map[string]tokensource.Token{
		"nothing":              {Expiry: time.Now().Add(lifetime)},
		"a key only":           {Key: []byte(sentinel)},
		"expired":              {Value: sentinel, Expiry: time.Now().Add(-time.Second)},
		"a certificate, ended": {Certificate: []byte(sentinel), Expiry: time.Now().Add(-lifetime)},
	} {
		t.Run(name, func(t *testing.T) {
			source := tokensource.NewCache(tokensource.Options{}).Source(keyOf("uid", "1"),
				func(context.Context) (tokensource.Token, error) { return token, nil })
			_, err := source.Token(t.Context())
			if !credential.IsMintFailed(err) || strings.Contains(err.Error(), sentinel) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// What a Resolve asks for is tried each time: it comes after the back-off of the provider.
func TestTokenDoesNotRememberFailures(t *testing.T) {
	service := newService()
	service.err = errService
	source := newSource(service)
	for range 2 {
		if _, err := source.Token(t.Context()); !errors.Is(err, errService) {
			t.Errorf("got %v", err)
		}
	}
	expectMints(t, service, 2)
}

func TestSourcesDifferByEveryFieldOfTheKey(t *testing.T) {
	cache, service := tokensource.NewCache(tokensource.Options{}), newService()
	base := keyOf("uid", "1")
	source := cache.Source(base, service.mint)
	if cache.Source(base, service.mint) != source {
		t.Error("two sources for one key")
	}
	for name, edit := range map[string]func(*tokensource.Key){
		"Resolver":  func(k *tokensource.Key) { k.Resolver = "other" },
		"SecretUID": func(k *tokensource.Key) { k.SecretUID = "other" },
		"server": func(k *tokensource.Key) {
			k.Endpoint = tokensource.EndpointOf("https://other.example.com", []byte("ca"))
		},
		"CA":              func(k *tokensource.Key) { k.Endpoint = tokensource.EndpointOf(server, []byte("other")) },
		"Parameters":      func(k *tokensource.Key) { k.Parameters = "other" },
		"ResourceVersion": func(k *tokensource.Key) { k.ResourceVersion = "2" },
	} {
		t.Run(name, func(t *testing.T) {
			cache := tokensource.NewCache(tokensource.Options{})
			first, key := cache.Source(base, service.mint), base
			edit(&key)
			if cache.Source(key, service.mint) == first {
				t.Error("one source for two keys")
			}
		})
	}
}

func TestEndpointHasNoCA(t *testing.T) {
	endpoint := tokensource.EndpointOf(server, []byte(sentinel))
	// The digest is that of SHA-256 of the sentinel, in hexadecimal.
	if !strings.HasPrefix(endpoint, server+"#") || strings.Contains(endpoint, sentinel) || len(endpoint) != len(server)+1+64 {
		t.Errorf("got %s", endpoint)
	}
}

// expectDropped expects a source that gives nothing and mints nothing.
func expectDropped(t *testing.T, source *tokensource.Source, s *service) {
	t.Helper()
	before := s.mints.Load()
	token, err := source.Token(t.Context())
	if !credential.IsMintFailed(err) || !strings.Contains(err.Error(), "has changed or is gone") || token.Value != "" {
		t.Errorf("got %v", err)
	}
	if s.mints.Load() != before {
		t.Error("minted all the same")
	}
}

func TestSourcesOfAnOldVersionAreDropped(t *testing.T) {
	cache, service := tokensource.NewCache(tokensource.Options{}), newService()
	other := keyOf("uid", "9")
	other.Resolver = "other"
	sources := []*tokensource.Source{cache.Source(keyOf("uid", "9"), service.mint), cache.Source(other, service.mint)}
	unrelated := cache.Source(keyOf("another", "9"), service.mint)
	for _, source := range sources {
		mustToken(t, source)
	}
	current := cache.Source(keyOf("uid", "10"), service.mint)
	for _, source := range sources {
		expectDropped(t, source, service)
	}
	// A reader that comes late.
	expectDropped(t, cache.Source(keyOf("uid", "9"), service.mint), service)
	mustToken(t, current)
	mustToken(t, unrelated)
	if got := cache.Len(); got != 2 {
		t.Errorf("%d Secrets, want 2", got)
	}
}

func TestVersionsThatAreNoNumbers(t *testing.T) {
	cache, service := tokensource.NewCache(tokensource.Options{}), newService()
	for _, version := range []string{"b", "a", "", "5", "x4"} {
		mustToken(t, cache.Source(keyOf("uid", version), service.mint))
	}
}

func TestForgottenSecrets(t *testing.T) {
	cache, service := tokensource.NewCache(tokensource.Options{}), newService()
	source := cache.Source(keyOf("uid", "1"), service.mint)
	mustToken(t, source)
	cache.Forget("uid")
	cache.Forget("never seen")
	expectDropped(t, source, service)
	// An import that has read the Secret before.
	for _, uid := range []string{"uid", "never seen"} {
		expectDropped(t, cache.Source(keyOf(uid, "2"), service.mint), service)
	}
	if got := cache.Len(); got != 0 {
		t.Errorf("%d Secrets, want none", got)
	}
}

// Neither what the mint gives nor the token that is still valid.
func TestSecretThatGoesDuringAMint(t *testing.T) {
	for name, age := range map[string]time.Duration{"of the first token": 0, "of a renewal": lifetime * 9 / 10} {
		for end, err := range map[string]error{"with success": nil, "with a failure": errService} {
			t.Run(name+" "+end, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					cache, service := tokensource.NewCache(tokensource.Options{}), newService()
					source := cache.Source(keyOf("uid", "1"), service.mint)
					if age > 0 {
						mustToken(t, source)
						time.Sleep(age)
					}
					service.hold, service.err = make(chan struct{}), err
					got := make(chan error)
					go func() {
						_, err := source.Token(t.Context())
						got <- err
					}()
					synctest.Wait()
					cache.Forget("uid")
					close(service.hold)
					if err := <-got; !credential.IsMintFailed(err) || !strings.Contains(err.Error(), "is gone") {
						t.Errorf("got %v", err)
					}
				})
			})
		}
	}
}

func TestTokenThatComesTooLateIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, service := tokensource.NewCache(tokensource.Options{}), newService()
		service.hold = make(chan struct{})
		old := cache.Source(keyOf("uid", "1"), service.mint)
		go func() { _, _ = old.Token(t.Context()) }()
		synctest.Wait()
		current := cache.Source(keyOf("uid", "2"), service.mint)
		close(service.hold)
		synctest.Wait()
		current.Adopt(old)
		mustToken(t, current)
		expectMints(t, service, 2)
	})
}

func TestBounds(t *testing.T) {
	cache, service := tokensource.NewCache(tokensource.Options{MaxEntries: 3}), newService()
	first := cache.Source(keyOf("0", "1"), service.mint)
	token := mustToken(t, first)
	for i := range 10 {
		cache.Source(keyOf(strconv.Itoa(i+1), "1"), service.mint)
	}
	if got := cache.Len(); got != 3 {
		t.Errorf("%d Secrets, want 3", got)
	}
	// An import that is running goes on; the next one has a source of its own.
	if mustToken(t, first) != token {
		t.Error("another token")
	}
	if again := mustToken(t, cache.Source(keyOf("0", "1"), service.mint)); again == token {
		t.Error("the least recently used source is still there")
	}

	key := keyOf("many", "1")
	var sources []*tokensource.Source
	for i := range 100 {
		key.Parameters = strconv.Itoa(i)
		sources = append(sources, cache.Source(key, service.mint))
	}
	mustToken(t, sources[0])
	if key.Parameters = "0"; cache.Source(key, service.mint) == sources[0] {
		t.Error("one Secret has a hundred sources")
	}
	cache.Source(keyOf("many", "2"), service.mint)
	expectDropped(t, sources[0], service)
}

func TestRenewing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var given []string
		fail := errors.New("no")
		renew := func(err error) tokensource.Renew {
			return func(_ context.Context, current tokensource.Token) (tokensource.Token, error) {
				given = append(given, current.Value)
				return tokensource.Token{Value: fmt.Sprint("token ", len(given)), Expiry: time.Now().Add(lifetime)}, err
			}
		}
		source := tokensource.NewCache(tokensource.Options{}).Renewing(keyOf("uid", "1"), renew(fail))
		if _, err := source.Token(t.Context()); !errors.Is(err, fail) {
			t.Errorf("got %v", err)
		}
		for _, step := range []time.Duration{0, lifetime * 9 / 10, 2 * lifetime} {
			time.Sleep(step)
			if _, err := source.TokenBy(t.Context(), renew(nil)); err != nil {
				t.Error(err)
			}
		}
		// Nothing at first, the one that is valid, nothing once it has expired.
		if got, want := fmt.Sprintf("%q", given), `["" "" "token 2" ""]`; got != want {
			t.Errorf("given %s, want %s", got, want)
		}
	})
}

func TestAdopt(t *testing.T) {
	cache, service := tokensource.NewCache(tokensource.Options{}), newService()
	old := cache.Source(keyOf("uid", "1"), service.mint)
	token := mustToken(t, old)
	current := cache.Source(keyOf("uid", "2"), service.mint)
	current.Adopt(nil)
	current.Adopt(current)
	current.Adopt(old)
	if mustToken(t, current) != token {
		t.Error("another token")
	}
	expectMints(t, service, 1)
	expectDropped(t, old, service)

	next := cache.Source(keyOf("uid", "3"), service.mint)
	mustToken(t, next)
	next.Adopt(current)
	if mustToken(t, next) == token {
		t.Error("a token is replaced by an older one")
	}

	// Who comes late, with a Secret of before, takes nothing away.
	token = mustToken(t, next)
	cache.Source(keyOf("uid", "2"), service.mint).Adopt(next)
	if mustToken(t, next) != token {
		t.Error("the token went to a source that is dropped")
	}
}

func TestTokensDoNotPrintThemselves(t *testing.T) {
	token := tokensource.Token{Value: sentinel, Certificate: []byte(sentinel), Key: []byte(sentinel), Expiry: time.Now().Add(lifetime)}
	cache := tokensource.NewCache(tokensource.Options{})
	source := cache.Source(keyOf("uid", "1"), func(context.Context) (tokensource.Token, error) { return token, nil })
	mustToken(t, source)
	values := map[string]any{
		"token": token, "pointer": &token, "source": source, "cache": cache, "field": struct{ T tokensource.Token }{token},
		"slice": []tokensource.Token{token}, "map": map[string]*tokensource.Source{"a": source}, "hidden": struct{ s *tokensource.Source }{source},
	}
	numbers := strings.Trim(fmt.Sprintf("%d", []byte(sentinel)), "[]")
	hex := fmt.Sprintf("%x", sentinel)
	check := func(how, text string) {
		t.Helper()
		for _, secret := range []string{sentinel, numbers, hex, "czNudDFuZWwt"} {
			if strings.Contains(strings.ToLower(text), strings.ToLower(secret)) {
				t.Errorf("%s prints the token: %s", how, text)
			}
		}
	}
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	for name, value := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T"} {
			check(name+" "+verb, fmt.Sprintf(verb, value))
		}
		data, err := json.Marshal(value)
		if err != nil && name != "hidden" {
			t.Errorf("%s: %v", name, err)
		}
		check(name+" as JSON", string(data))
		logger.Info("A value", "value", value)
		logger.Error(nil, "A value", "value", value)
	}
	check("klog", logOf(logger))
}

// Ten thousand Secrets that come, change and go leave as much as one thousand do.
func TestChurn(t *testing.T) {
	const each = 5000
	cache, service := tokensource.NewCache(tokensource.Options{MaxEntries: 200}), newService()
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	large := strings.Repeat(sentinel, 100)
	churn := func(from int) {
		for i := from; i < from+each; i++ {
			uid := "uid-" + strconv.Itoa(i)
			for version := range 2 {
				source := cache.Source(keyOf(uid, strconv.Itoa(version+1)), func(ctx context.Context) (tokensource.Token, error) {
					token, err := service.mint(ctx)
					token.Value += large
					return token, err
				})
				mustToken(t, source)
			}
			if i%2 == 0 {
				cache.Forget(types.UID(uid))
			}
			if cache.Len() > 200 {
				t.Fatalf("%d Secrets", cache.Len())
			}
		}
	}
	churn(0)
	before, goroutines := heap(), runtime.NumGoroutine()
	churn(each)
	if after := heap(); after > before+before/2 {
		t.Errorf("the heap grew from %d to %d bytes", before, after)
	}
	if now := runtime.NumGoroutine(); now > goroutines+10 {
		t.Errorf("%d goroutines, before %d", now, goroutines)
	}
	runtime.KeepAlive(cache)
}

func BenchmarkToken(b *testing.B) {
	source := newSource(newService())
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := source.Token(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

func ExampleCache() {
	cache := tokensource.NewCache(tokensource.Options{})
	source := cache.Source(tokensource.Key{
		Resolver: "example", SecretUID: "8a5c", ResourceVersion: "42", Endpoint: tokensource.EndpointOf(server, []byte("PEM")),
	}, func(context.Context) (tokensource.Token, error) {
		return tokensource.Token{Value: "made-up", Expiry: time.Now().Add(time.Hour)}, nil
	})
	token, err := source.Token(context.Background())
	fmt.Println(token, err)
	cache.Forget("8a5c")
	_, err = source.Token(context.Background())
	fmt.Println(err)
	// Output:
	// tokensource.Token(redacted) <nil>
	// the import Secret has changed or is gone since its credential was read; its token is not used any more
}
