# report.sh KIND FILE: one line about the numbers in a file, one of them in each line.
case "$1" in
  sum) awk -v title="$TITLE" '{ sum += $1 } END { print title ": sum " sum }' "$2" ;;
  count) awk -v title="$TITLE" 'END { print title ": count " NR }' "$2" ;;
esac
