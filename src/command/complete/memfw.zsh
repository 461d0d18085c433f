#compdef memfw
# memfw in zsh: put it as _memfw into a directory of $fpath, or source <(memfw completions zsh)
_memfw() {
    local line tab=$'\t'
    local -a values shown
    while IFS= read -r line; do
        values+=("${line%%$tab*}")
        shown+=("${line/$tab/  }")
    done < <(command memfw complete zsh $((CURRENT - 1)) -- "${(@Q)words}" 2> /dev/null)
    if (( ${#values} )); then
        compadd -V memfw -l -d shown -a values
    else
        _files
    fi
}
if [[ "${funcstack[1]}" == "_memfw" ]]; then
    _memfw "$@"
else
    compdef _memfw memfw
fi
