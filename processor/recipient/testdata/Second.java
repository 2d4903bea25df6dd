import com.google.i18n.phonenumbers.NumberParseException;
import com.google.i18n.phonenumbers.PhoneNumberUtil;
import com.google.i18n.phonenumbers.PhoneNumberUtil.PhoneNumberFormat;
import com.google.i18n.phonenumbers.PhoneNumberUtil.PhoneNumberType;
import com.google.i18n.phonenumbers.PhoneNumberUtil.ValidationResult;
import com.google.i18n.phonenumbers.Phonenumber.PhoneNumber;
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.Base64;

/**
 * Reads phone numbers by the rules of package recipient, with Google's own library in the
 * place of its port to Go. Each line of the input is a region (or -) and a spelling in
 * base64; each of the output is the key and its country (or -), and whether it is in no
 * range that is assigned, or - where the spelling is refused.
 */
public class Second {
    static final PhoneNumberUtil util = PhoneNumberUtil.getInstance();

    public static void main(String[] args) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(new BufferedOutputStream(System.out, 1 << 16), false, "US-ASCII");
        for (String line; (line = in.readLine()) != null; ) {
            String[] fields = line.split(" ", -1);
            byte[] text = Base64.getDecoder().decode(fields[1]);
            out.println(text.length > 128 ? "-" : read(new String(text, StandardCharsets.UTF_8), fields[0]));
        }
        out.flush();
    }

    static String read(String text, String region) {
        String digits = clean(text);
        if (digits == null || digits.isEmpty() || digits.equals("+")) return "-";
        if (digits.startsWith("+")) region = "ZZ";
        else if (region.equals("-")) return "-";
        if (digits.matches("0*")) return "-";
        for (int i = 0; i < 4; i++) { // a key is its own key
            PhoneNumber n;
            try {
                n = util.parse(digits, region.toUpperCase(java.util.Locale.ROOT));
            } catch (NumberParseException e) {
                return "-";
            }
            if (util.isPossibleNumberWithReason(n) != ValidationResult.IS_POSSIBLE) return "-";
            String key = util.format(n, PhoneNumberFormat.E164);
            if (key.length() > 16) return "-";
            if (key.equals(digits)) {
                boolean assigned = util.isValidNumber(n);
                if (!assigned && !mobileLength(n)) return "-";
                return key + " " + country(n) + (assigned ? "" : " unassigned");
            }
            digits = key;
            region = "ZZ";
        }
        return "-";
    }

    /** Whether some country of the calling code has mobile numbers of this length. */
    static boolean mobileLength(PhoneNumber n) {
        return util.isPossibleNumberForTypeWithReason(n, PhoneNumberType.MOBILE) == ValidationResult.IS_POSSIBLE;
    }

    static String country(PhoneNumber n) {
        String c = util.getRegionCodeForNumber(n);
        if (c == null) c = util.getRegionCodeForCountryCode(n.getCountryCode());
        return c == null || c.length() != 2 || c.equals("ZZ") ? "-" : c;
    }

    /** The digits in ASCII, after a + if there is one; null where the text is no number. */
    static String clean(String text) {
        int[] chars = text.codePoints().toArray();
        int from = 0, to = chars.length;
        while (from < to && blank(chars[from])) from++;
        while (from < to && blank(chars[to - 1])) to--;
        StringBuilder b = new StringBuilder();
        for (int i = from; i < to; i++) {
            int c = chars[i];
            if (Character.getType(c) == Character.DECIMAL_DIGIT_NUMBER) b.append(Character.digit(c, 10));
            else if (c == '+' || c == '\uFF0B') {
                if (b.length() > 0) return null;
                b.append('+');
            } else if (Character.getType(c) != Character.FORMAT && !Character.isSpaceChar(c) && "-.()[]‐‑‒–—―−ー－．（）［］⁓".indexOf(c) < 0) return null;
        }
        return b.toString();
    }

    static boolean blank(int c) {
        return Character.isSpaceChar(c) || c >= '\t' && c <= '\r' || c == 0x85;
    }
}
