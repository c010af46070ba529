// Copyright Contributors to the Open Cluster Management project

package podrunner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/utils/ptr"
)

// errNotReady is wrapped by errors of volumes whose source does not exist yet: the pod waits, as it does
// with a real kubelet.
var errNotReady = errors.New("volume source not ready")

// volumes materialises the volumes of one pod below dir and keeps them in step with their sources.
type volumes struct {
	pod        *corev1.Pod
	dir        string
	client     kubernetes.Interface
	secrets    corev1listers.SecretLister
	configMaps corev1listers.ConfigMapLister

	// mu serialises sync, which the ticker and the start of a container both call.
	mu     sync.Mutex
	dirs   map[string]*atomicDir
	tokens map[string]boundToken
}

type boundToken struct {
	token string
	renew time.Time
}

// path is the directory of a volume. It exists after the first successful sync.
func (v *volumes) path(name string) string { return filepath.Join(v.dir, name) }

// sync brings every volume up to date.
func (v *volumes) sync(ctx context.Context) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range v.pod.Spec.Volumes {
		vol := &v.pod.Spec.Volumes[i]
		if err := v.syncOne(ctx, vol); err != nil {
			return fmt.Errorf("volume %s: %w", vol.Name, err)
		}
	}
	return nil
}

func (v *volumes) syncOne(ctx context.Context, vol *corev1.Volume) error {
	if vol.EmptyDir != nil {
		return os.MkdirAll(v.path(vol.Name), 0o700)
	}
	files := map[string]file{}
	var err error
	switch {
	case vol.Secret != nil:
		err = v.addSecret(files, vol.Secret.SecretName, vol.Secret.Items, vol.Secret.Optional, vol.Secret.DefaultMode)
	case vol.ConfigMap != nil:
		err = v.addConfigMap(files, vol.ConfigMap.Name, vol.ConfigMap.Items, vol.ConfigMap.Optional, vol.ConfigMap.DefaultMode)
	case vol.DownwardAPI != nil:
		err = v.addDownward(files, vol.DownwardAPI.Items, vol.DownwardAPI.DefaultMode)
	case vol.Projected != nil:
		err = v.addProjected(ctx, files, vol.Projected)
	default:
		err = errors.New("this kind of volume is not supported")
	}
	if err != nil {
		return err
	}
	d := v.dirs[vol.Name]
	if d == nil {
		d = &atomicDir{path: v.path(vol.Name)}
		v.dirs[vol.Name] = d
	}
	_, err = d.write(files)
	return err
}

func (v *volumes) addProjected(ctx context.Context, files map[string]file, p *corev1.ProjectedVolumeSource) error {
	for _, s := range p.Sources {
		var err error
		switch {
		case s.Secret != nil:
			err = v.addSecret(files, s.Secret.Name, s.Secret.Items, s.Secret.Optional, p.DefaultMode)
		case s.ConfigMap != nil:
			err = v.addConfigMap(files, s.ConfigMap.Name, s.ConfigMap.Items, s.ConfigMap.Optional, p.DefaultMode)
		case s.DownwardAPI != nil:
			err = v.addDownward(files, s.DownwardAPI.Items, p.DefaultMode)
		case s.ServiceAccountToken != nil:
			var token string
			token, err = v.token(ctx, s.ServiceAccountToken)
			files[s.ServiceAccountToken.Path] = file{data: token, mode: 0o600}
		default:
			err = errors.New("this kind of projection is not supported")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (v *volumes) addSecret(files map[string]file, name string, items []corev1.KeyToPath, optional *bool, mode *int32) error {
	secret, err := v.secrets.Secrets(v.pod.Namespace).Get(name)
	if err != nil {
		return missing("secret", name, optional, err)
	}
	data := make(map[string]string, len(secret.Data))
	for k, b := range secret.Data {
		data[k] = string(b)
	}
	return addKeys(files, "secret "+name, data, items, optional, mode)
}

func (v *volumes) addConfigMap(files map[string]file, name string, items []corev1.KeyToPath, optional *bool, mode *int32) error {
	cm, err := v.configMaps.ConfigMaps(v.pod.Namespace).Get(name)
	if err != nil {
		return missing("configmap", name, optional, err)
	}
	data := make(map[string]string, len(cm.Data)+len(cm.BinaryData))
	maps.Copy(data, cm.Data)
	for k, b := range cm.BinaryData {
		data[k] = string(b)
	}
	return addKeys(files, "configmap "+name, data, items, optional, mode)
}

func missing(kind, name string, optional *bool, err error) error {
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("get %s %s: %w", kind, name, err)
	}
	if ptr.Deref(optional, false) {
		return nil
	}
	return fmt.Errorf("%w: %s %s not found", errNotReady, kind, name)
}

func addKeys(files map[string]file, source string, data map[string]string, items []corev1.KeyToPath, optional *bool, mode *int32) error {
	if len(items) == 0 {
		for k, s := range data {
			files[k] = file{data: s, mode: fileMode(nil, mode)}
		}
		return nil
	}
	for _, item := range items {
		s, ok := data[item.Key]
		switch {
		case ok:
			files[item.Path] = file{data: s, mode: fileMode(item.Mode, mode)}
		case !ptr.Deref(optional, false):
			return fmt.Errorf("%w: %s has no key %s", errNotReady, source, item.Key)
		}
	}
	return nil
}

// fileMode is the mode that was asked for without the rights of others: the directory is shared with the
// machine's users, unlike a pod's.
func fileMode(modes ...*int32) fs.FileMode {
	for _, m := range modes {
		if m != nil {
			return fs.FileMode(*m).Perm()&0o700 | 0o400 //nolint:gosec // A file mode, validated by the API server.
		}
	}
	return 0o600
}

func (v *volumes) addDownward(files map[string]file, items []corev1.DownwardAPIVolumeFile, mode *int32) error {
	for _, item := range items {
		if item.FieldRef == nil {
			return errors.New("downward API resource fields are not supported")
		}
		value, err := podField(v.pod, item.FieldRef.FieldPath)
		if err != nil {
			return err
		}
		files[item.Path] = file{data: value, mode: fileMode(item.Mode, mode)}
	}
	return nil
}

// token returns a token of the pod's service account that is bound to the pod, so that the API server
// refuses it once the pod is gone. A new one is asked for after half of its life: a process reads the file
// once a minute and a test machine may stall for longer than a kubelet's margin of a fifth.
func (v *volumes) token(ctx context.Context, p *corev1.ServiceAccountTokenProjection) (string, error) {
	key := p.Audience + "\x00" + p.Path
	if t, ok := v.tokens[key]; ok && time.Now().Before(t.renew) {
		return t.token, nil
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: p.ExpirationSeconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: v.pod.Name, UID: v.pod.UID},
	}}
	if p.Audience != "" {
		request.Spec.Audiences = []string{p.Audience}
	}
	got, err := v.client.CoreV1().ServiceAccounts(v.pod.Namespace).
		CreateToken(ctx, v.pod.Spec.ServiceAccountName, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("request token of service account %s: %w", v.pod.Spec.ServiceAccountName, err)
	}
	life := time.Until(got.Status.ExpirationTimestamp.Time)
	v.tokens[key] = boundToken{token: got.Status.Token, renew: time.Now().Add(life / 2)}
	return got.Status.Token, nil
}

// podField resolves the field paths of the downward API that make sense without a container runtime.
func podField(pod *corev1.Pod, path string) (string, error) {
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.podIP", "status.podIPs", "status.hostIP", "status.hostIPs":
		return loopback, nil
	}
	for prefix, values := range map[string]map[string]string{
		"metadata.labels": pod.Labels, "metadata.annotations": pod.Annotations,
	} {
		rest, ok := strings.CutPrefix(path, prefix+"['")
		if key, closed := strings.CutSuffix(rest, "']"); ok && closed {
			return values[key], nil
		}
	}
	return "", fmt.Errorf("field %s is not supported", strconv.Quote(path))
}
