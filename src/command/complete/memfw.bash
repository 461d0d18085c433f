# memfw in bash: source <(memfw completions bash)
_memfw() {
    local word
    COMPREPLY=()
    while IFS= read -r word; do
        COMPREPLY+=("$word")
    done < <(memfw complete bash "$COMP_CWORD" -- "${COMP_WORDS[@]}" 2> /dev/null)
    # What goes on below a directory is the same word.
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]]; then
        compopt -o nospace
    fi
}
complete -o bashdefault -o default -F _memfw memfw
