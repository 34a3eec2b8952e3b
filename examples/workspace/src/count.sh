# Counts the words of a file.
count=0
while read -r line; do
  for word in $line; do count=$((count + 1)); done
done <"$1"
echo "$1 has $count words"
[ ! -e notes.txt ] || echo "the notes should have stayed at home"
