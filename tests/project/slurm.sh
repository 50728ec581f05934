#!/usr/bin/env bash
# Runs Debian's Slurm with munge, a controller and two nodes on this machine; `srun` starts four
# ranks without our run tool. They must end with the losses of four ranks on one machine, over their
# own choice of backend and over Gloo. A killed rank must end the step with an error.
# usage: slurm.sh BOOSTER GPT2_TEXT
set -euo pipefail
booster=$1 program=$2

skip() {
  echo "skipped: $1"
  exit 77
}
PATH=$PATH:/usr/sbin:/sbin
for name in munged slurmctld slurmd srun; do
  command -v "$name" >/dev/null || skip "no $name (slurm-wlm, munge)"
done
((EUID == 0)) || skip "Slurm's daemons want root here"

folder=$(mktemp -d)
chmod 755 "$folder"
daemons=()
finish() {
  # The steps' processes are not the daemons' children, and cannot end without them.
  if [[ -n ${SLURM_CONF-} ]]; then
    timeout 5 scancel --user root 2>/dev/null || true
    within 5 are_idle || true
  fi
  ((${#daemons[@]} == 0)) || kill "${daemons[@]}" 2>/dev/null || true
  wait 2>/dev/null || true
  rm -rf "$folder"
}
trap finish EXIT
fail() {
  echo "failed: $1"
  tail -n 20 "$folder"/*.log
  exit 1
}
start() {
  local name=$1
  shift
  "$@" > "$folder/$name.log" 2>&1 &
  daemons+=("$!")
}
# within SECONDS COMMAND...: repeats the command until it succeeds
within() {
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || return 1
    sleep 0.2
  done
}

mkdir -m 700 "$folder/munge"
mkdir "$folder/run" "$folder/state" "$folder/spool-0" "$folder/spool-1"
chmod 755 "$folder/run"
head -c 128 /dev/urandom > "$folder/munge/key"
chmod 400 "$folder/munge/key"
start munged munged --foreground --force --socket "$folder/run/munge" \
  --key-file "$folder/munge/key" --log-file "$folder/munge/log" \
  --pid-file "$folder/munge/pid" --seed-file "$folder/munge/seed"
within 10 test -S "$folder/run/munge" || fail "no munge"

free_ports() {
  local port found=()
  for ((port = 20000 + RANDOM % 20000; ${#found[@]} < $1; ++port)); do
    (: < "/dev/tcp/127.0.0.1/$port") 2>/dev/null || found+=("$port")
  done
  echo "${found[@]}"
}
read -r control first second <<< "$(free_ports 3)"
host=$(hostname -s)
cat > "$folder/slurm.conf" <<END
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$control
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/run/munge
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool-%n
SlurmctldPidFile=$folder/run/slurmctld.pid
SlurmdPidFile=$folder/run/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
NodeName=node0 NodeHostname=$host NodeAddr=127.0.0.1 Port=$first CPUs=2 State=UNKNOWN
NodeName=node1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$second CPUs=2 State=UNKNOWN
PartitionName=all Nodes=node0,node1 Default=YES MaxTime=INFINITE State=UP
END
export SLURM_CONF=$folder/slurm.conf
start slurmctld slurmctld -D -f "$SLURM_CONF"
for node in 0 1; do start "slurmd-$node" slurmd -D -f "$SLURM_CONF" -N "node$node"; done
are_idle() { [[ $(sinfo --noheader --format '%D %t') == "2 idle" ]]; }
within 30 are_idle || { sinfo || true; fail "Slurm does not start"; }

for _ in {1..60}; do printf 'the quick brown fox jumps over the lazy dog. '; done > "$folder/text"
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
BOOSTER_SECRET=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
export BOOSTER_SECRET

# Sets the array `words` to the command that trains NAME with PLUGIN for STEPS steps.
words_of() {
  words=("$program" --set data.file="$folder/text" --set train.output_dir="$folder/$1"
    --set booster.plugin="$2" --set train.max_steps="$3" --set train.epochs=100000
    --set model.name=gpt2 --set model.n_positions=32 --set model.n_embd=32
    --set model.n_layer=2 --set model.n_head=2
    --set data.tokens=32 --set data.batch_size=2 --set train.log_every=1
    --set train.sample_tokens=0)
}
# The ranks of a node form a machine, which the node's name identifies.
on_slurm() {
  timeout -k 5 120 srun --nodes 2 --ntasks 4 bash -c \
    'export BOOSTER_MACHINE=$SLURMD_NODENAME MASTER_ADDR=127.0.0.1; exec "$@"' - "${words[@]}"
}
losses() { grep -o '"loss":[^,}]*' "$folder/$1/metrics.jsonl"; }

for plugin in torch_ddp low_level_zero; do
  words_of "one-$plugin" "$plugin" 6
  "$booster" run --nproc_per_node 4 "${words[@]}" > "$folder/one.log" 2>&1 ||
    fail "four ranks on one machine with $plugin"
  for backend in "" gloo; do
    name=slurm$backend-$plugin
    words_of "$name" "$plugin" 6
    BOOSTER_BACKEND=$backend on_slurm > "$folder/$name.log" 2>&1 || fail "$name"
    [[ $(losses "one-$plugin") == $(losses "$name") ]] ||
      fail "$name: other losses than one machine"
    echo "$name: $(losses "$name" | tail -n 1)"
  done
done

words_of killed torch_ddp 1000000
on_slurm > "$folder/killed.log" 2>&1 &
step=$!
has_begun() { (($(wc -l < "$folder/killed/metrics.jsonl") > 3)); }
within 60 has_begun || fail "killed: no progress"
victim=$(pgrep -f "^$program .*output_dir=$folder/killed" | tail -n 1)
start=$SECONDS
kill -9 "$victim"
! wait "$step" || fail "a killed rank was no error"
((SECONDS - start <= 15)) || fail "the error took $((SECONDS - start)) s"
grep -q "while other ranks still need it" "$folder/killed.log" || fail "nobody says who is gone"
within 10 are_idle || fail "Slurm is not idle afterwards"
echo "Slurm trains on two nodes as one machine does"
