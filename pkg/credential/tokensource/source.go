// Copyright Contributors to the Open Cluster Management project

package tokensource

import (
	"context"
	"errors"
	"hash/fnv"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"open-cluster-management.io/import-provider/pkg/credential"
)

var (
	// errUnfinished is for a Mint that panicked: an unexpected error, whose text is not shown.
	errUnfinished = errors.New("minting a token panicked; the log of the import controller has the stack")
	errTimeout    = credential.MintFailed(errors.New("no token was issued in time; it is tried again"))
)

// Source is one token that is minted when it is needed. Make it with Cache.Source. It is safe for concurrent use.
type Source struct {
	clock       clock.PassiveClock
	mintTimeout time.Duration
	// host is where the tokens may be sent to, as host:port.
	host       string
	generation *generation
	renew      Renew

	lock sync.Mutex // guards all below, for the time of a look-up or a change, never while minting
	// held is the present token. It is nil before the first one, and after one that the cluster refused.
	held *held
	// renewAt is when the token is to be replaced though it is valid.
	renewAt time.Time
	// flight is the mint that is under way, or nil.
	flight    *flight
	failure   error
	failedAt  time.Time
	refusedAt time.Time
}

// held is a token until a time, which is its expiry if that is known.
type held struct {
	// token returns it. Package fmt prints every field of every struct that it reaches, but no function.
	token func() Token
	until time.Time
}

// flight is one mint, which all who need a token wait for. held and err are set before landed is closed.
type flight struct {
	landed chan struct{}
	held   *held
	err    error
	// waiting is how many wait for it, guarded by Source.lock. When the last of them has given up it is cancelled.
	waiting int
	cancel  context.CancelFunc
}

func newSource(o Options, key Key, g *generation, renew Renew) *Source {
	return &Source{clock: o.Clock, mintTimeout: o.MintTimeout, host: hostOf(serverOf(key.Endpoint)), generation: g, renew: renew}
}

// Token returns a token that is not used up: a new one from 75 to 80 % of the lifetime on (the part depends on the token, so
// that those which were minted together are not renewed together), or after the cluster refused the last one. While a valid token
// can't be replaced it is used, and that is tried again after RenewalInterval; not so after a DeniedError or an InvalidError.
//
// Who asks for a token while one is being minted gets the valid one, or waits. The mint goes on when a caller gives up, until the
// last of them has.
// Errors are those of the Mint, that of ctx, a MintError after Options.MintTimeout, and a MintError if the source was dropped.
func (s *Source) Token(ctx context.Context) (Token, error) { return s.TokenBy(ctx, s.renew) }

// TokenBy is Token that, if a token has to be minted now, does it by renew. The source does not keep renew, which may thus hold
// a credential. If a mint is under way already, its result counts.
func (s *Source) TokenBy(ctx context.Context, renew Renew) (Token, error) {
	held, err := s.get(ctx, renew, 0)
	if err != nil {
		return Token{}, err
	}
	return held.token(), nil
}

// Adopt takes over the token of another source, if there is none yet: of one for the same endpoint, from before a change of the
// Secret that does not concern the token. That it does not is the caller's promise.
func (s *Source) Adopt(old *Source) {
	if old == nil || old == s {
		return
	}
	// Always in this order: a token goes from an older version of the Secret to a newer one.
	old.lock.Lock()
	defer old.lock.Unlock()
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.held != nil || s.generation.dropped.Load() {
		return
	}
	s.held, s.renewAt = old.held, old.renewAt
	old.held = nil
}

// wipe removes the token.
func (s *Source) wipe() {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.held = nil
}

// get returns the token, a new one by renew if it must. An error of the last mint that is younger than remembered stands for one
// more mint.
func (s *Source) get(ctx context.Context, renew Renew, remembered time.Duration) (*held, error) {
	s.lock.Lock()
	now := s.clock.Now()
	if s.generation.dropped.Load() {
		s.lock.Unlock()
		return nil, errDropped
	}
	present := s.present(now)
	switch {
	case present != nil && (now.Before(s.renewAt) || s.flight != nil):
		s.lock.Unlock()
		return present, nil
	case s.flight != nil:
	case present == nil && s.failure != nil && now.Sub(s.failedAt) < remembered:
		err := s.failure
		s.lock.Unlock()
		return nil, err
	default:
		s.start(ctx, renew, present)
	}
	current := s.flight
	current.waiting++
	s.lock.Unlock()
	return s.await(ctx, current, present)
}

// await returns what a mint gives, or the token that is valid if that takes too long or fails.
func (s *Source) await(ctx context.Context, current *flight, present *held) (*held, error) {
	var enough <-chan time.Time
	if present != nil {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		enough = timer.C
	}
	var err error
	select {
	case <-ctx.Done():
		s.giveUp(current)
		return nil, ctx.Err()
	case <-enough:
		err = errTimeout
	case <-current.landed:
		err = current.err
	}
	switch {
	case s.generation.dropped.Load():
		return nil, errDropped
	case err == nil:
		return current.held, nil
	case present != nil && !isFinal(err) && s.clock.Now().Before(present.until):
		return present, nil
	}
	return nil, err
}

// giveUp leaves a mint to the others who wait for it, and ends it if there are none.
func (s *Source) giveUp(current *flight) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if current.waiting--; current.waiting > 0 {
		return
	}
	current.cancel()
	if s.flight == current {
		// Who comes next is not to wait for the end of it.
		s.flight = nil
	}
}

// present returns the token if it is valid. The caller has the lock.
func (s *Source) present(now time.Time) *held {
	if s.held == nil || !now.Before(s.held.until) {
		return nil
	}
	return s.held
}

// start mints a token in the background. The caller has the lock.
func (s *Source) start(ctx context.Context, renew Renew, present *held) {
	var current Token
	if present != nil {
		current = present.token()
	}
	// Not the values of ctx either: a request that waits may have a trace in it, which is not for the requests of the mint.
	detached, cancel := context.WithTimeout(klog.NewContext(context.Background(), klog.FromContext(ctx)), s.mintTimeout)
	started := &flight{landed: make(chan struct{}), cancel: cancel}
	s.flight = started
	go func() {
		defer cancel()
		var token Token
		err := errUnfinished
		defer func() {
			if recover() != nil {
				// debug.Stack has addresses, not the value, which may hold a credential.
				klog.FromContext(detached).Error(nil, "Minting a token panicked", "stack", string(debug.Stack()))
			}
			s.land(started, token, err)
		}()
		token, err = renew(detached, current)
		if err != nil && detached.Err() != nil {
			err = errTimeout
		}
	}()
}

// land ends a mint.
func (s *Source) land(landed *flight, token Token, err error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	defer close(landed.landed)
	if s.flight != landed {
		// All who waited for it have given up.
		return
	}
	s.flight = nil
	now := s.clock.Now()
	fresh := &held{token: func() Token { return token }, until: token.Expiry}
	if fresh.until.IsZero() {
		fresh.until = now.Add(MaxAge)
	}
	switch {
	case s.generation.dropped.Load():
		landed.err = errDropped
		return
	case err != nil:
	case token.Value == "" && len(token.Certificate) == 0:
		err = credential.MintFailed(errors.New("what was issued holds no token; it is tried again"))
	case !now.Before(fresh.until):
		err = credential.MintFailed(errors.New("the token that was issued is expired already; check the clock of the hub"))
	}
	if err != nil {
		s.failure, s.failedAt, s.renewAt = err, now, now.Add(RenewalInterval)
		if isFinal(err) {
			s.held = nil
		}
		landed.err = err
		return
	}
	s.failure = nil
	s.held, s.renewAt = fresh, now.Add(renewAfter(token, fresh.until.Sub(now)))
	landed.held = fresh
}

// isFinal says whether an error means that the token which is valid must not be used either: the policy has changed, or the
// cluster has another endpoint than the token was made for.
func isFinal(err error) bool { return credential.IsDenied(err) || credential.IsInvalid(err) }

// renewAfter is the part of a lifetime that a token is used for: from 75 to 80 %, always the same for the same token.
func renewAfter(token Token, lifetime time.Duration) time.Duration {
	digest := fnv.New32a()
	_, _ = digest.Write([]byte(token.Value))
	_, _ = digest.Write(token.Certificate)
	const steps = 1000
	return lifetime*3/4 + lifetime/20/steps*time.Duration(digest.Sum32()%(steps+1))
}

// refused notes that the cluster does not accept a token, which is replaced then if none was in the last RefusalInterval.
func (s *Source) refused(sent *held) {
	s.lock.Lock()
	defer s.lock.Unlock()
	now := s.clock.Now()
	if s.held != sent || !s.refusedAt.IsZero() && now.Sub(s.refusedAt) < RefusalInterval {
		return
	}
	s.held, s.refusedAt = nil, now
}
