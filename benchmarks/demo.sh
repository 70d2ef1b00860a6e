#!/bin/sh
# The main job from end to end on the shipped model, as `make demo` runs it:
#   sh benchmarks/demo.sh path/to/lite-nlp OUTPUT_DIRECTORY [OPTIONS OF COMPRESS]
set -eu
lite_nlp=$1
out=$2
shift 2
rm -rf "$out"
mkdir -p "$out"

step() { printf '\n== %s\n' "$*" >&2; }

cat > "$out/sentences.txt" <<'SENTENCES'
Good morning! How are you today?
I would like a cup of coffee, please.
Where is the nearest train station?
My sister lives in a small town near the sea.
A man in a red shirt is riding a bicycle down the street.
If it does not rain tomorrow, we will go for a walk in the mountains.
SENTENCES

step "1/4 count the shipped model against the mobile budget"
"$lite_nlp" budget --check

step "2/4 compress it further: sensitivity, a plan for every matrix, tuning, entropy coding"
"$lite_nlp" compress --target-size 1.4MB --out "$out/compressed" "$@" > "$out/ledger.txt"

step "3/4 export the compressed model to ONNX and ExecuTorch"
"$lite_nlp" export "$out/compressed/model.lnlp" --out "$out/model.zip"

step "4/4 translate with torch and from the exported files"
"$lite_nlp" translate "$out/compressed/model.lnlp" --input "$out/sentences.txt" --output "$out/torch.txt"
for runtime in onnx executorch; do
    "$lite_nlp" translate "$out/model.zip" --runtime "$runtime" --input "$out/sentences.txt" --output "$out/$runtime.txt"
    # The export has proved the tokens equal. Only a tie, two tokens whose logits are the same but for rounding, may change a
    # line; two lines would be too much of a chance.
    changed=$(diff "$out/torch.txt" "$out/$runtime.txt" | grep -c '^<' || true)
    test "$changed" -le 1 || { diff "$out/torch.txt" "$out/$runtime.txt" >&2; exit 1; }
    echo "$runtime: $((6 - changed)) of 6 lines are those of torch" >> "$out/same.txt"
done

cat "$out/ledger.txt"
cat "$out/same.txt"
echo "Translations of ONNX Runtime:"
paste -d '\n' "$out/sentences.txt" "$out/onnx.txt" | sed 'n;s/^/    /'
